#include "engine/plan/every_rank.hpp"

#include <algorithm>
#include <tuple>

#include "engine/base/error.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/checkpoint_blocks.hpp"
#include "engine/plan/describe_pipeline.hpp"
#include "engine/plugin/job_place.hpp"

namespace plait::plan {
int32_t ranks_wanted(const config::TopologyConfig& t) {
  int64_t ranks = 1;
  for (const int64_t given : {t.pipeline, t.data, t.tensor}) {
    const int64_t size = given == 0 ? 1 : given;
    if (size < 1 || size > topology::kMaxRanks / ranks) return 1;
    ranks *= size;
  }
  return static_cast<int32_t>(ranks);
}

std::unique_ptr<const Plan> plan_of_rank(const config::Experiment& experiment, PlanContext context,
                                         int32_t rank, int32_t ranks, config::Problems& problems) {
  context.rank = rank;
  context.world = 0;
  if (rank > 0) context.log = nullptr;  // rank 0 has warned
  const auto place = [](int32_t n) { return static_cast<uint32_t>(n); };
  const plugin::JobScope scope({place(rank), place(ranks), place(rank), place(ranks)});
  return make_plan(experiment, context, problems);
}

namespace {

// Whether the ranks that differ in the data coordinate alone have equal plans but for offsets: each
// of them updates equally many elements of every bucket. With ZeRO, replicas own different whole
// parameters where the rule sees tensors, so their update programs differ. All groups are known on
// every rank.
bool replicas_are_equal(const Plan& plan) {
  const auto whole = [](const ParameterGroup& g) { return g.scope == PLAIT_SCOPE_TENSOR; };
  if (plan.zero > 0 && std::any_of(plan.groups.begin(), plan.groups.end(), whole)) return false;
  const auto even = [&](const Bucket& b) {
    return b.shard_elements == (plan.zero > 0 ? b.elements / plan.grid.data() : b.elements);
  };
  return std::all_of(plan.groups.begin(), plan.groups.end(), [&](const ParameterGroup& g) {
    return std::all_of(g.buckets.begin(), g.buckets.end(), even);
  });
}

// The part of a plan that is kept, for its rank or for the ranks of all replicas.
PlannedRanks ranks_of(const Plan& plan, bool all_replicas) {
  PlannedRanks ranks{
      plan.at, calls_of(plan), memory_of(plan), totals_of(plan, plan.entry_point(kTrainStep)), {}};
  const int32_t n = all_replicas ? plan.grid.data() : 1;
  for (int32_t replica = 0; replica < n; ++replica)
    ranks.checkpoint_copy.push_back(
        checkpoint_copy_bytes(plan, all_replicas ? replica : plan.at.data));
  return ranks;
}

}  // namespace

const PlannedRanks& JobPlan::of(const topology::Coordinates& at) const {
  const topology::Grid& grid = first->grid;
  const int32_t replica = equal_replicas ? 0 : at.data, replicas = equal_replicas ? 1 : grid.data();
  const int32_t index = (at.pipeline * replicas + replica) * grid.tensor() + at.tensor;
  return planned.at(static_cast<size_t>(index));
}

MemoryUse JobPlan::memory_of(const topology::Coordinates& at) const {
  const PlannedRanks& all = of(at);
  MemoryUse memory = all.memory;
  memory.checkpoint_copy =
      all.checkpoint_copy.at(static_cast<size_t>(equal_replicas ? at.data : 0));
  return memory;
}

topology::Coordinates JobPlan::fullest(int32_t pipeline) const {
  topology::Coordinates best{pipeline, 0, 0};
  const auto key = [&](const topology::Coordinates& at) {
    const MemoryUse memory = memory_of(at);
    return std::tuple(memory.arena, memory.total());
  };
  for (int32_t data = 0; data < first->grid.data(); ++data)
    for (int32_t tensor = 0; tensor < first->grid.tensor(); ++tensor)
      if (const topology::Coordinates at{pipeline, data, tensor}; key(at) > key(best)) best = at;
  return best;
}

std::unique_ptr<JobPlan> plan_every_rank(const config::Experiment& experiment,
                                         const PlanContext& context, config::Problems& problems) {
  auto job = std::make_unique<JobPlan>();
  job->first = plan_of_rank(experiment, context, 0, ranks_wanted(experiment.topology), problems);
  if (!job->first) return nullptr;
  job->equal_replicas = replicas_are_equal(*job->first);
  job->planned.push_back(ranks_of(*job->first, job->equal_replicas));
  const topology::Grid& grid = job->first->grid;
  PlanContext next = context;
  next.sibling = job->first.get();
  for (int32_t rank = 1; rank < grid.ranks(); ++rank) {
    if (job->equal_replicas && grid.at(rank).data > 0) continue;
    const auto plan = plan_of_rank(experiment, next, rank, grid.ranks(), problems);
    if (!plan) return nullptr;
    job->planned.push_back(ranks_of(*plan, job->equal_replicas));
  }
  std::vector<const RankCalls*> calls;
  for (int32_t rank = 0; rank < grid.ranks(); ++rank)
    calls.push_back(&job->of(grid.at(rank)).calls);
  job->verdict = verify_job(grid, calls);
  return job;
}

namespace {

void write_rank(JsonWriter& w, const JobPlan& job, const topology::Coordinates& at) {
  w.field("rank", job.first->grid.rank(at)).field("pipeline", at.pipeline);
  w.field("data", at.data).field("tensor", at.tensor);
  write_memory(w, job.memory_of(at));
}

// One row for each pipeline coordinate: its fullest rank.
void write_stages(JsonWriter& w, const JobPlan& job) {
  const Plan& plan = *job.first;
  const topology::PipelineShape& shape = plan.pipeline.schedule.shape;
  const std::vector<double> idle = idle_of_ranks(plan);
  w.key("stages").array();
  for (int32_t p = 0; p < plan.grid.pipeline(); ++p) {
    const topology::Coordinates at = job.fullest(p);
    w.object().key("stages").array();
    for (int32_t chunk = 0; chunk < shape.chunks; ++chunk) w.value(shape.stage(p, chunk));
    w.end_array().field("ranks", plan.grid.data() * plan.grid.tensor());
    write_rank(w, job, at);
    const Totals& step = job.of(at).step;
    w.field("flops_per_step", step.flops).field("sent_bytes_per_step", step.sent_bytes);
    w.field("idle_share", idle[static_cast<size_t>(p)]).end_object();
  }
  w.end_array();
}

}  // namespace

std::string describe(const JobPlan& job) {
  if (!job.verdict.fault.empty())
    fail(PLAIT_ERR_PEER,
         "[plan] the ranks of this job would not finish a run: " + job.verdict.fault +
             "; all members of a group must make the same calls in the same order: correct the "
             "plugin that makes a model depend on the rank, or report this if none does");
  const Plan& plan = *job.first;
  JsonWriter w;
  w.object().field("schema", 1).field("name", plan.experiment.run.name);
  w.field("device", plan.device).field("threads", plan.threads).field("steps", plan.total_steps);
  w.field("global_batch", plan.experiment.batch.global);
  w.field("micro_batch", plan.experiment.batch.micro).field("accumulation", plan.accumulation);
  w.key("topology").object().field("ranks", plan.grid.ranks());
  w.field("pipeline", plan.grid.pipeline()).field("data", plan.grid.data());
  w.field("tensor", plan.grid.tensor()).field("zero", plan.experiment.topology.zero);
  w.field("sequence", plan.experiment.topology.sequence).end_object();
  w.field("planned_ranks", static_cast<uint64_t>(job.planned.size()));
  w.key("calls_per_step").object().field("collectives", job.verdict.collectives);
  w.field("messages", job.verdict.messages).end_object();
  topology::Coordinates fullest = job.fullest(0);
  for (int32_t p = 1; p < plan.grid.pipeline(); ++p) {
    const topology::Coordinates at = job.fullest(p);
    const MemoryUse memory = job.memory_of(at), most = job.memory_of(fullest);
    if (std::tuple(memory.arena, memory.total()) > std::tuple(most.arena, most.total()))
      fullest = at;
  }
  w.key("fullest").object();
  write_rank(w, job, fullest);
  w.end_object();
  write_stages(w, job);
  w.end_object();
  return w.text();
}

}  // namespace plait::plan
