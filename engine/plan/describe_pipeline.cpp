#include "engine/plan/describe_pipeline.hpp"

#include <algorithm>
#include <iterator>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/topology/schedule_svg.hpp"

namespace plait::plan {
namespace {

using topology::Schedule;

// The simulation of twice the micro-batches must not take longer than the plan.
constexpr int64_t kMostActions = 1 << 18;

topology::Timeline simulated(const Schedule& schedule,
                             const std::vector<topology::StageCost>& costs) {
  return topology::simulate(schedule, topology::durations(schedule, costs));
}

// The idle fraction with that many micro-batches of the same size; -1 if it would take too long to
// simulate.
double idle_with(const Plan& plan, int64_t micro_batches) {
  const Schedule& s = plan.pipeline.schedule;
  if (3 * s.shape.stages() * micro_batches > kMostActions) return -1;
  return simulated(topology::make_schedule(s.method, s.shape, micro_batches), plan.pipeline.costs)
      .idle_fraction;
}

void stages(JsonWriter& w, const Plan& plan) {
  const topology::PipelineShape& shape = plan.pipeline.schedule.shape;
  w.key("stages").array();
  for (int32_t s = 0; s < shape.stages(); ++s) {
    const topology::StageCost& cost = plan.pipeline.costs[static_cast<size_t>(s)];
    std::vector<std::string> layers;
    for (size_t m = 0; m < plan.experiment.models.size(); ++m) {
      const config::ModelConfig& model = plan.experiment.models[m];
      for (size_t l = 0; l < model.layers.size(); ++l)
        if (plan.pipeline.stage_of[m][l] == s)
          layers.push_back(model.name + "." + model.layers[l].name);
    }
    w.object().field("stage", s).field("rank", shape.rank_of(s)).texts("layers", layers);
    w.field("forward_flops", cost.forward).field("backward_flops", cost.backward);
    w.field("weight_grad_flops", cost.weights);
    // The part of these FLOPs that remains after the pass has sent its message.
    w.field("forward_flops_after_send", cost.after_forward);
    w.field("backward_flops_after_send", cost.after_backward).end_object();
  }
  w.end_array();
}

// The smallest divisor of n that is at least `least`; 0 if there is none. n itself if the search
// would take long.
int64_t divisor_from(int64_t n, int64_t least) {
  for (int64_t d = least; d <= std::min<int64_t>(n, 1 << 20); ++d)
    if (n % d == 0) return d;
  return n >= least ? n : 0;
}

bool given(const config::Experiment& e, std::string_view section, std::string_view key) {
  for (const auto& [path, set] : e.sections)
    if (path == section) return set.given(key);
  return false;
}

// Advice on the key to set for `wanted` micro-batches. Samples are divided evenly between replicas.
std::string advice(const Plan& plan, int64_t wanted) {
  const int64_t share = plan.accumulation * plan.experiment.batch.micro;
  const int64_t passes = divisor_from(share, wanted);
  if (passes == 0)
    return "set batch.accumulation to " + std::to_string(wanted) +
           " or more, and batch.global to a multiple of " +
           std::to_string(wanted * plan.grid.data());
  if (given(plan.experiment, "batch", "micro"))
    return "set batch.micro to " + std::to_string(share / passes) + " or less";
  return "set batch.accumulation to " + std::to_string(passes) + " or more";
}

}  // namespace

void describe_pipeline(JsonWriter& w, const Plan& plan) {
  if (plan.grid.pipeline() == 1) return;
  const Schedule& schedule = plan.pipeline.schedule;
  const topology::Timeline timeline = simulated(schedule, plan.pipeline.costs);
  w.key("pipeline").object().field("schedule", topology::schedule_name(schedule.method));
  w.field("ranks", schedule.shape.ranks).field("virtual_stages", schedule.shape.chunks);
  w.field("micro_batches", schedule.micro_batches).field("split_backward", schedule.split_backward);
  w.field("rank", plan.at.pipeline);
  const topology::LiveMicroBatches& held = timeline.live[static_cast<size_t>(plan.at.pipeline)];
  w.field("in_flight_micro_batches", held.peak);
  stages(w, plan);
  w.key("idle").array();
  for (const double share : timeline.idle) w.value(share);
  w.end_array().field("idle_share", timeline.idle_fraction);
  const int64_t twice = 2 * static_cast<int64_t>(schedule.micro_batches);
  if (const double share = idle_with(plan, twice); share >= 0)
    w.key("doubled").object().field("micro_batches", twice).field("idle_share", share).end_object();
  w.end_object();
}

std::vector<double> idle_of_ranks(const Plan& plan) {
  if (plan.grid.pipeline() == 1) return {0};
  return simulated(plan.pipeline.schedule, plan.pipeline.costs).idle;
}

void warn_idle(const Plan& plan, Log* log) {
  const int64_t ranks = plan.grid.pipeline(), micro_batches = plan.accumulation;
  if (!log || plan.rank != 0 || ranks == 1 || micro_batches >= ranks) return;
  log->warn(
      strf("[plan] %lld micro-batch%s in a pipeline of %lld ranks: the ranks idle %.0f %% of the "
           "time; %s",
           static_cast<long long>(micro_batches), micro_batches == 1 ? "" : "es",
           static_cast<long long>(ranks), 100 * idle_with(plan, micro_batches),
           advice(plan, 2 * ranks).c_str()));
}

std::string schedule_svg(const Plan& plan) {
  if (plan.grid.pipeline() == 1)
    fail(PLAIT_ERR_STATE,
         "[plan] there is no schedule to draw: the plan has no pipeline; set topology.pipeline to "
         "2 or more");
  const Schedule& schedule = plan.pipeline.schedule;
  // Readable numbers: below 1000 at the end of the axis.
  static const char* const kUnits[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  size_t unit = 0;
  std::vector<topology::StageCost> costs = plan.pipeline.costs;
  topology::Timeline timeline = simulated(schedule, costs);
  for (double total = timeline.total; total >= 1000 && unit + 1 < std::size(kUnits);
       total /= 1000) {
    ++unit;
    for (topology::StageCost& c : costs)
      for (double* of : {&c.forward, &c.backward, &c.weights, &c.after_forward, &c.after_backward})
        *of /= 1000;
  }
  if (unit > 0) timeline = simulated(schedule, costs);
  topology::SvgOptions options;
  options.unit = kUnits[unit];
  return topology::draw_svg(schedule, timeline, options);
}

}  // namespace plait::plan
