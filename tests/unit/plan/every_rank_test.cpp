// Every rank of small jobs: what is planned once stands for all ranks that it is planned for.
#include "engine/plan/every_rank.hpp"

#include <doctest/doctest.h>
#include <plait/comm.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using namespace plait;
using namespace plait::plan;

// Column and row shards, extents that ranks do not divide (5 classes), a tied weight, parameters of
// uneven length, and enough layers for four stages.
const char* const kExperiment = R"([run]
steps = 4
seed = 5
device = "reference"
[batch]
global = 24
[data.train]
type = "synthetic"
samples = 48
shape = [18]
classes = 5
[model]
layers = [{type = "linear", name = "a", out = 18, parallel = "column", bias = false},
          {type = "gelu"}, {type = "linear", out = 18, parallel = "row"}, {type = "layer_norm"},
          {type = "dropout", p = 0.1},
  {type = "linear", out = 18, bias = false, parallel = "column", tie = {weight = "model.a.weight"}},
          {type = "relu"}, {type = "linear", out = 7, parallel = "row"},
          {type = "linear", out = 5, parallel = "column"}]
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
clip_grad_norm = 1.0
)";

struct Job {
  explicit Job(const std::vector<std::string>& keys)
      : experiment(test::experiment_of(kExperiment, keys, context)),
        job(plan_every_rank(experiment, context, problems)) {
    problems.raise_if_any();
  }
  std::unique_ptr<const Plan> plan(int32_t rank) {
    PlanContext own = context;
    own.rank = rank;
    own.world = 0;
    return make_plan(experiment, own, problems);
  }
  static std::shared_ptr<plugin::Registry> plugins() {
    static const auto kPlugins =
        test::load_plugins({"device-reference", "layer-dense", "layer-activation", "layer-norm",
                            "layer-dropout", "layer-loss", "data-synthetic", "optimizer-adamw",
                            "optimizer-muon", "optimizer-adafactor"});
    return kPlugins;
  }

  config::Problems problems;
  PlanContext context{plugins(), nullptr, {&FileSystem::posix(), "", "."}};
  config::Experiment experiment;
  std::unique_ptr<JobPlan> job;
};

const std::vector<std::vector<std::string>> kLayouts = {
    {},
    {"topology.data=3", "batch.accumulation=2"},
    {"topology.data=3", "topology.zero=1", "topology.bucket_mib=0.001", "checkpoint.every=2"},
    {"topology.data=4", "topology.zero=2", "batch.accumulation=2", "checkpoint.every=2"},
    {"topology.data=3", "topology.zero=3", "topology.tensor=2", "checkpoint.every=2"},
    {"topology.data=2", "checkpoint.every=2", "topology.tensor=3"},
    {"topology.tensor=3", "topology.sequence=true", "topology.data=2", "topology.recompute=stage"},
    {"topology.tensor=2", "precision.compute=f64"},
    {"topology.pipeline=2", "topology.data=2", "topology.tensor=2", "batch.accumulation=3",
     "checkpoint.every=2"},
    {"topology.pipeline=4", "topology.schedule=gpipe", "batch.accumulation=4"},
    {"topology.pipeline=2", "topology.schedule=interleaved", "topology.virtual_stages=2",
     "batch.accumulation=4", "topology.tensor=2", "topology.sequence=true"},
    {"topology.pipeline=3", "topology.schedule=interleaved", "topology.virtual_stages=2",
     "batch.accumulation=4"},
    {"topology.pipeline=3", "topology.schedule=zero_bubble", "batch.accumulation=4",
     "topology.data=2", "topology.zero=1"},
    {"topology.pipeline=2", "topology.data=3", "topology.zero=3", "batch.accumulation=2",
     "checkpoint.every=2"},
    {"topology.pipeline=2", "topology.data=2", "topology.zero=2", "topology.tensor=2",
     "topology.recompute=layer"},
    // Replicas own whole parameters: each is planned.
    {"optimizer.type=muon", "topology.data=3", "topology.zero=1", "topology.bucket_mib=0.001"},
    {"optimizer.type=muon", "topology.data=2", "topology.zero=2", "topology.tensor=2",
     "batch.accumulation=2", "checkpoint.every=2"},
    {"optimizer.type=adafactor", "topology.data=2", "topology.zero=3", "topology.pipeline=2"},
    {"optimizer.type=muon", "topology.data=2", "topology.tensor=3"},
};

std::string text(const std::vector<std::string>& keys) {
  std::string all;
  for (const std::string& key : keys) all += key + " ";
  return all;
}

}  // namespace

TEST_CASE("every_rank: what was planned once equals the plan of each rank") {
  for (const std::vector<std::string>& keys : kLayouts) {
    CAPTURE(text(keys));
    Job all(keys);
    const JobPlan& job = *all.job;
    const topology::Grid& grid = job.first->grid;
    const bool owned = !keys.empty() && job.first->zero > 0 && keys[0].find("optimizer.type") == 0;
    CHECK(job.equal_replicas == !owned);
    CHECK(job.planned.size() ==
          static_cast<size_t>(owned ? grid.ranks() : grid.pipeline() * grid.tensor()));
    CHECK(job.verdict.fault == "");
    CHECK((job.verdict.collectives > 0) == (grid.ranks() > 1));
    CHECK((job.verdict.messages > 0) == (grid.pipeline() > 1));
    std::vector<RankCalls> own;
    for (int32_t rank = 0; rank < grid.ranks(); ++rank) {
      CAPTURE(rank);
      const auto plan = all.plan(rank);
      REQUIRE(plan);
      const PlannedRanks& planned = job.of(plan->at);
      CHECK(planned.at ==
            topology::Coordinates{plan->at.pipeline, owned ? plan->at.data : 0, plan->at.tensor});
      own.push_back(calls_of(*plan));
      CHECK(own.back() == planned.calls);
      CHECK(memory_of(*plan) == job.memory_of(plan->at));
      CHECK(totals_of(*plan, plan->entry_point(kTrainStep)) == planned.step);
      // The fullest of its stage needs at least as much.
      const MemoryUse most = job.memory_of(job.fullest(plan->at.pipeline));
      CHECK(most.arena >= memory_of(*plan).arena);
      if (most.arena == memory_of(*plan).arena) CHECK(most.total() >= memory_of(*plan).total());
    }
    // Not only the representatives match.
    std::vector<const RankCalls*> calls;
    for (const RankCalls& each : own) calls.push_back(&each);
    CHECK(verify_job(grid, calls).fault == "");
  }
}

TEST_CASE("every_rank: replicas write different shares of a checkpoint") {
  Job all({"topology.data=3", "checkpoint.every=2"});
  std::set<uint64_t> copies;
  uint64_t sum = 0;
  for (int32_t data = 0; data < 3; ++data) {
    const MemoryUse memory = all.job->memory_of({0, data, 0});
    copies.insert(memory.checkpoint_copy);
    sum += memory.checkpoint_copy;
  }
  CHECK(copies.size() > 1);
  uint64_t elements = 0;
  for (const Parameter& p : all.job->first->parameters)
    elements += static_cast<uint64_t>(program::elements(p.shape));
  CHECK(sum == elements * 4 * 3);  // parameter, two states
  CHECK(all.job->memory_of(all.job->fullest(0)).checkpoint_copy == *copies.rbegin());
}

TEST_CASE("every_rank: each fault that is planted in the calls of a rank is found") {
  const std::vector<std::string> keys[] = {
      {"topology.pipeline=2", "topology.data=2", "topology.tensor=2", "topology.zero=1",
       "batch.accumulation=3", "data.eval.type=synthetic", "data.eval.samples=24",
       "data.eval.shape=[18]", "data.eval.classes=5"},
      {"topology.data=2", "topology.zero=3", "topology.tensor=2", "batch.accumulation=2"}};
  for (const std::vector<std::string>& layout : keys) {
    CAPTURE(text(layout));
    Job all(layout);
    const topology::Grid& grid = all.job->first->grid;
    std::vector<const RankCalls*> calls;
    for (int32_t rank = 0; rank < grid.ranks(); ++rank)
      calls.push_back(&all.job->of(grid.at(rank)).calls);
    const int32_t at = grid.ranks() - 1;
    const RankCalls good = *calls[static_cast<size_t>(at)];
    int planted = 0;
    const auto check = [&](const RankCalls& bad) {
      calls[static_cast<size_t>(at)] = &bad;
      const std::string fault = verify_job(grid, calls).fault;
      CHECK(fault.find(strf("rank %d", at)) != std::string::npos);
      ++planted;
    };
    std::set<int32_t> used;
    for (size_t p = 0; p < good.programs.size(); ++p)
      for (size_t i = 0; i < good.programs[p].calls.size(); ++i) {
        const JobCall& call = good.programs[p].calls[i];
        if (!call.starts) continue;
        CAPTURE(good.programs[p].name);
        CAPTURE(good.collectives[static_cast<size_t>(call.collective)].name);
        used.insert(call.collective);
        RankCalls bad = good;
        auto& list = bad.programs[p].calls;
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));  // the start is missing
        check(bad);
        bad = good;
        bad.programs[p].calls.push_back(call);  // one start too many
        check(bad);
      }
    for (const int32_t c : used) {
      CAPTURE(good.collectives[static_cast<size_t>(c)].name);
      RankCalls bad = good;
      bad.collectives[static_cast<size_t>(c)].n += 1;
      check(bad);
      bad = good;
      bad.collectives[static_cast<size_t>(c)].dtype = PLAIT_BF16;
      check(bad);
    }
    CHECK(planted > 60);
  }
}

TEST_CASE("every_rank: the report names the fullest rank and has a row for each stage") {
  Job all({"topology.pipeline=2", "topology.data=2", "topology.tensor=2"});
  const std::string json = describe(*all.job);
  CHECK(json.find(R"("ranks": 8)") != std::string::npos);
  CHECK(json.find(R"("planned_ranks": 4)") != std::string::npos);
  CHECK(json.find(R"("stages": [{"stages": [0], "ranks": 4, )") != std::string::npos);
  all.job->verdict.fault = "call 1 of group tensor.0 is ...";
  CHECK_THROWS_WITH_AS(describe(*all.job), doctest::Contains("call 1 of group tensor.0"), Error);
}

// The gradients of a bucket are reduced when its last one is complete: a later chunk's would be
// reduced too early.
TEST_CASE("whole parameters of the chunks of a rank are in buckets of their own") {
  Job job({"optimizer.type=muon", "topology.data=2", "topology.zero=1", "topology.pipeline=2",
           "topology.schedule=interleaved", "topology.virtual_stages=2", "batch.accumulation=4"});
  bool several = false;
  for (int32_t rank = 0; rank < 4; ++rank) {
    const auto plan = job.plan(rank);
    std::map<int32_t, std::set<int32_t>> chunks;  // by group
    for (const Parameter& p : plan->parameters) {
      if (p.group < 0 || !p.held_by(plan->at.pipeline)) continue;
      const ParameterGroup& g = plan->groups[static_cast<size_t>(p.group)];
      if (g.scope != PLAIT_SCOPE_TENSOR) continue;
      CAPTURE(rank);
      CAPTURE(p.name);
      CHECK(g.buckets.at(static_cast<size_t>(p.bucket)).chunk == p.chunk);
      chunks[p.group].insert(p.chunk);
      several |= chunks[p.group].size() > 1;
    }
  }
  CHECK(several);
}
