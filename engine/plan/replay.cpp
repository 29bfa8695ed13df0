#include "engine/plan/replay.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <map>
#include <optional>

#include "engine/base/error.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/every_rank.hpp"
#include "engine/program/op_def.hpp"
#include "engine/topology/schedule_svg.hpp"

namespace plait::plan {
namespace {

using topology::Duration;

// The ops of which nothing was measured, by "op of layer", with the calls of a step.
struct Unknown {
  std::map<std::string, int64_t> calls;
  double flops = 0, all_flops = 0;  // of a step
};

// The times of one rank's programs.
class RankTimes {
 public:
  RankTimes(const Plan& plan, const MeasuredTimes& times, Unknown& unknown)
      : plan_(plan), times_(times), unknown_(unknown), programs_(plan.programs.size()) {}

  // A launch of a program. Its messages take part in the schedule, not in this time.
  Duration of(const Launch& launch) {
    auto& known = programs_.at(static_cast<size_t>(launch.program));
    if (!known) known = measure(plan_.programs[static_cast<size_t>(launch.program)]);
    for (const auto& [name, calls] : known->unknown) unknown_.calls[name] += calls;
    unknown_.flops += known->unknown_flops;
    unknown_.all_flops += plan_.programs[static_cast<size_t>(launch.program)].flops;
    return {known->total, known->sent};
  }

 private:
  struct Times {
    double total = 0, sent = 0;
    std::map<std::string, int64_t> unknown;
    double unknown_flops = 0;
  };

  Times measure(const Program& program) const {
    Times t;
    t.total = t.sent = times_.launch_seconds();
    bool sends = false;
    for (const KernelCall& call : program.calls) {
      const program::Op& op = program.graph->ops()[static_cast<size_t>(call.op)];
      if (call.collective >= 0) {
        const Collective& c = plan_.collectives[static_cast<size_t>(call.collective)];
        if (is_message(c)) {
          if (c.kind != PLAIT_COMM_SEND || op.def->collective != program::CollectiveOp::kStart)
            continue;
          sends = true;
          t.sent = t.total;
          continue;
        }
      }
      if (const auto seconds = times_.seconds_of(measured_op(plan_, program, call))) {
        t.total += *seconds;
        continue;
      }
      ++t.unknown[op.name + (op.scope.empty() ? "" : " of " + op.scope)];
      t.unknown_flops += call.flops;
    }
    if (!sends) t.sent = t.total;
    return t;
  }

  const Plan& plan_;
  const MeasuredTimes& times_;
  Unknown& unknown_;
  std::vector<std::optional<Times>> programs_;
};

// The launches of stage passes: [begin, end) of a step's, the last ones before the update. Without
// a pipeline one for each micro-batch; count_weights, launched for each, too, comes before.
std::pair<size_t, size_t> passes_of(const Plan& plan) {
  const std::vector<Launch>& all = plan.entry_point(kTrainStep).launches;
  size_t end = 0;
  while (end < all.size() && all[end].micro < plan.accumulation) ++end;
  const size_t n =
      plan.grid.pipeline() == 1
          ? static_cast<size_t>(plan.accumulation)
          : plan.pipeline.schedule.actions[static_cast<size_t>(plan.at.pipeline)].size();
  return {end - std::min(n, end), end};
}

RankStep step_of(const Plan& plan, const MeasuredTimes& times, Unknown& unknown) {
  RankTimes programs(plan, times, unknown);
  const auto [begin, end] = passes_of(plan);
  const std::vector<Launch>& all = plan.entry_point(kTrainStep).launches;
  RankStep step;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].program < 0) continue;
    const Duration d = programs.of(all[i]);
    if (i >= begin && i < end)
      step.passes.push_back(d);
    else
      (i < begin ? step.before : step.after) += d.total;
  }
  return step;
}

// The plans of one replica's first tensor ranks, in the order of the pipeline.
struct Job {
  std::vector<std::unique_ptr<const Plan>> ranks;
  const Plan& first() const { return *ranks.front(); }
};

std::optional<Job> plan_pipeline(const config::Experiment& experiment, const PlanContext& context,
                                 config::Problems& problems) {
  Job job;
  job.ranks.push_back(
      plan_of_rank(experiment, context, 0, ranks_wanted(experiment.topology), problems));
  if (!job.ranks[0]) return std::nullopt;
  const topology::Grid grid = job.first().grid;
  PlanContext next = context;
  next.sibling = job.ranks[0].get();
  for (int32_t p = 1; p < grid.pipeline(); ++p) {
    job.ranks.push_back(
        plan_of_rank(experiment, next, grid.rank({p, 0, 0}), grid.ranks(), problems));
    if (!job.ranks.back()) return std::nullopt;
  }
  return job;
}

struct Replayed {
  std::vector<RankStep> ranks;
  StepPrediction step;
  Unknown unknown;
};

Replayed replayed(const Job& job, const MeasuredTimes& times) {
  Replayed r;
  for (const auto& plan : job.ranks) r.ranks.push_back(step_of(*plan, times, r.unknown));
  r.step =
      predict_step(job.first().pipeline.schedule, r.ranks, times.message_seconds().value_or(0));
  return r;
}

// Seconds of each layer in a micro-batch, all passes together. Losses and metrics count for the
// last layer.
std::vector<std::vector<double>> layer_seconds(const Job& job, const MeasuredTimes& times) {
  const auto& models = job.first().experiment.models;
  std::map<std::string, std::pair<size_t, size_t>> place;  // by scope
  std::vector<std::vector<double>> seconds;
  for (size_t m = 0; m < models.size(); ++m) {
    seconds.emplace_back(models[m].layers.size(), 0);
    if (models[m].layers.empty()) continue;
    place[models[m].name] = {m, models[m].layers.size() - 1};
    for (size_t l = 0; l < models[m].layers.size(); ++l)
      place[models[m].name + "." + models[m].layers[l].name] = {m, l};
  }
  const auto place_of = [&](std::string scope) {
    for (;;) {
      if (const auto at = place.find(scope); at != place.end()) return at;
      const size_t dot = scope.rfind('.');
      if (dot == std::string::npos) return place.end();
      scope.resize(dot);
    }
  };
  for (const auto& plan : job.ranks) {
    const auto [begin, end] = passes_of(*plan);
    const std::vector<Launch>& all = plan->entry_point(kTrainStep).launches;
    for (size_t i = begin; i < end; ++i) {
      if (all[i].micro != 0 || all[i].program < 0) continue;
      const Program& program = plan->programs[static_cast<size_t>(all[i].program)];
      for (const KernelCall& call : program.calls) {
        if (call.collective >= 0) continue;
        const program::Op& op = program.graph->ops()[static_cast<size_t>(call.op)];
        const auto at = place_of(op.scope);
        if (at == place.end()) continue;
        seconds[at->second.first][at->second.second] +=
            times.seconds_of(measured_op(*plan, program, call)).value_or(0);
      }
    }
  }
  return seconds;
}

// The layers of each stage that make the slowest stage fastest; empty: that is the split of the
// plan, or topology.stages cannot express it.
std::vector<int64_t> better_split(const Job& job, const std::vector<std::vector<double>>& seconds) {
  const Pipeline& pipeline = job.first().pipeline;
  const topology::PipelineShape& shape = pipeline.schedule.shape;
  if (seconds.size() != 1 || static_cast<int64_t>(seconds[0].size()) < shape.stages()) return {};
  std::vector<int64_t> layers, now(static_cast<size_t>(shape.stages()), 0);
  for (const topology::Range& stage : topology::stages_by_cost(seconds[0], shape))
    layers.push_back(stage.end - stage.begin);
  for (const int32_t s : pipeline.stage_of[0]) ++now[static_cast<size_t>(s)];
  return layers == now ? std::vector<int64_t>{} : layers;
}

std::string list_text(const std::vector<int64_t>& numbers) {
  std::vector<std::string> all;
  for (const int64_t n : numbers) all.push_back(std::to_string(n));
  return "[" + join(all, ",") + "]";
}

// One thing that could be set otherwise, as an override for the command line.
struct Change {
  std::string override;
  config::Experiment experiment;
};

std::vector<Change> changes(const config::Experiment& experiment, const Job& job,
                            const std::vector<std::vector<double>>& layers) {
  const topology::Schedule& now = job.first().pipeline.schedule;
  std::vector<Change> all;
  if (job.first().grid.pipeline() == 1) return all;
  if (now.shape.chunks == 1)
    for (const auto kind : {topology::ScheduleKind::kGPipe, topology::ScheduleKind::k1F1B,
                            topology::ScheduleKind::kZeroBubble}) {
      if (kind == now.method) continue;
      const std::string name = topology::schedule_name(kind);
      all.push_back({"topology.schedule=" + name, experiment});
      all.back().experiment.topology.schedule = name;
    }
  if (const auto split = better_split(job, layers); !split.empty()) {
    all.push_back({"topology.stages=" + list_text(split), experiment});
    all.back().experiment.topology.stages = split;
  }
  return all;
}

// What is outside of the passes stays as it is: ranks with more parameters update longer, but the
// profile has no updates of other sizes.
void write_alternatives(JsonWriter& w, const config::Experiment& experiment,
                        const PlanContext& context, const Job& job, const Replayed& now,
                        const MeasuredTimes& times,
                        const std::vector<std::vector<double>>& layers) {
  PlanContext quiet = context;
  quiet.log = nullptr;
  quiet.sibling = job.ranks.front().get();
  w.key("alternatives").array();
  for (const Change& change : changes(experiment, job, layers)) {
    config::Problems none;  // a change that this experiment cannot have is no alternative
    const auto other = plan_pipeline(change.experiment, quiet, none);
    if (!other) continue;
    const Replayed r = replayed(*other, times);
    const double passes = r.step.pipeline.total;
    w.object().field("change", change.override);
    w.field("step_seconds", now.step.before + passes + now.step.after);
    w.field("passes_seconds", passes).field("idle_share", r.step.pipeline.idle_fraction);
    w.end_object();
  }
  w.end_array();
}

struct StageSeconds {
  double of_kind[3] = {0, 0, 0};  // of a micro-batch, by topology::ActionKind
  double total() const { return of_kind[0] + of_kind[1] + of_kind[2]; }
};

// The times of micro-batch 0, whose programs reduce no gradients unless it is the only one.
std::vector<StageSeconds> stage_seconds(const topology::Schedule& s, const Replayed& r) {
  std::vector<StageSeconds> stages(static_cast<size_t>(s.shape.stages()));
  for (size_t rank = 0; rank < s.actions.size(); ++rank)
    for (size_t i = 0; i < s.actions[rank].size(); ++i) {
      const topology::Action& a = s.actions[rank][i];
      if (a.micro != 0) continue;
      const int32_t stage = s.shape.stage(static_cast<int32_t>(rank), a.chunk);
      stages[static_cast<size_t>(stage)].of_kind[static_cast<size_t>(a.kind)] =
          r.ranks[rank].passes[i].total;
    }
  return stages;
}

void write_stages(JsonWriter& w, const Plan& plan, const Replayed& r) {
  const topology::Schedule& s = plan.pipeline.schedule;
  const std::vector<StageSeconds> stages = stage_seconds(s, r);
  size_t slowest = 0;
  w.key("stages").array();
  for (size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].total() > stages[slowest].total()) slowest = i;
    std::vector<std::string> layers;
    for (size_t m = 0; m < plan.pipeline.stage_of.size(); ++m)
      for (size_t l = 0; l < plan.pipeline.stage_of[m].size(); ++l)
        if (plan.pipeline.stage_of[m][l] == static_cast<int32_t>(i))
          layers.push_back(plan.experiment.models[m].name + "." +
                           plan.experiment.models[m].layers[l].name);
    const double busy = stages[i].total() * static_cast<double>(s.micro_batches);
    w.object().field("stage", static_cast<uint64_t>(i));
    w.field("rank", s.shape.rank_of(static_cast<int32_t>(i))).texts("layers", layers);
    w.field("forward_seconds", stages[i].of_kind[0]);
    w.field("backward_seconds", stages[i].of_kind[1]);
    if (s.split_backward) w.field("weight_grad_seconds", stages[i].of_kind[2]);
    w.field("busy_share", r.step.seconds > 0 ? busy / r.step.seconds : 0).end_object();
  }
  w.end_array().field("slowest_stage", static_cast<uint64_t>(slowest));
}

void write_unknown(JsonWriter& w, const Unknown& unknown) {
  w.field("measured_flops_share",
          unknown.all_flops > 0 ? 1 - unknown.flops / unknown.all_flops : 1.0);
  w.key("not_measured").array();
  for (const auto& [name, calls] : unknown.calls)
    w.object().field("op", name).field("calls", calls).end_object();
  w.end_array();
}

void write_profile(JsonWriter& w, const MeasuredTimes& times) {
  w.key("profile").object().field("steps", times.steps()).field("ranks", times.ranks());
  w.field("pipeline", times.pipeline());
  if (!times.schedule().empty()) w.field("schedule", times.schedule());
  w.field("step_seconds", times.step_seconds()).field("launch_seconds", times.launch_seconds());
  if (const auto seconds = times.message_seconds()) w.field("message_seconds", *seconds);
  w.end_object();
}

std::string picture(const topology::Schedule& schedule, std::vector<RankStep> ranks,
                    double message_seconds) {
  topology::Durations times;
  for (RankStep& rank : ranks) {
    for (Duration& d : rank.passes) d = {d.total * 1e3, d.sent * 1e3};
    times.push_back(rank.passes);
  }
  topology::SvgOptions options;
  options.unit = "ms";
  return topology::draw_svg(schedule, topology::simulate(schedule, times, message_seconds * 1e3),
                            options);
}

}  // namespace

StepPrediction predict_step(const topology::Schedule& schedule, const std::vector<RankStep>& ranks,
                            double message_seconds) {
  StepPrediction p;
  topology::Durations times;
  for (const RankStep& rank : ranks) {
    p.before = std::max(p.before, rank.before);
    p.after = std::max(p.after, rank.after);
    times.push_back(rank.passes);
  }
  if (schedule.actions.empty()) {
    p.pipeline.idle = {0};
    for (const RankStep& rank : ranks)
      for (const Duration& d : rank.passes) p.pipeline.total += d.total;
  } else {
    p.pipeline = topology::simulate(schedule, times, message_seconds);
  }
  p.seconds = p.before + p.pipeline.total + p.after;
  return p;
}

ReplayTexts replay(const config::Experiment& experiment, const PlanContext& context,
                   std::string_view profile, config::Problems& problems) {
  const MeasuredTimes times(profile);
  const auto job = plan_pipeline(experiment, context, problems);
  if (!job) return {};
  const Plan& plan = job->first();
  times.compare(plan);
  const Replayed r = replayed(*job, times);
  const auto layers = layer_seconds(*job, times);
  const topology::Schedule& schedule = plan.pipeline.schedule;
  JsonWriter w;
  w.object().field("schema", 1).field("name", experiment.run.name).field("device", plan.device);
  w.field("threads", plan.threads);
  w.field("pipeline", plan.grid.pipeline()).field("data", plan.grid.data());
  w.field("tensor", plan.grid.tensor()).field("micro_batches", plan.accumulation);
  w.field("step_seconds", r.step.seconds).field("before_seconds", r.step.before);
  w.field("passes_seconds", r.step.pipeline.total).field("after_seconds", r.step.after);
  if (plan.grid.pipeline() > 1) {
    w.field("schedule", topology::schedule_name(schedule.method));
    w.field("idle_share", r.step.pipeline.idle_fraction).key("idle").array();
    for (const double share : r.step.pipeline.idle) w.value(share);
    w.end_array();
    write_stages(w, plan, r);
  }
  w.key("layers").array();
  for (size_t m = 0; m < layers.size(); ++m)
    for (size_t l = 0; l < layers[m].size(); ++l)
      w.object()
          .field("name", experiment.models[m].name + "." + experiment.models[m].layers[l].name)
          .field("seconds", layers[m][l])
          .end_object();
  w.end_array();
  write_alternatives(w, experiment, context, *job, r, times, layers);
  write_profile(w, times);
  write_unknown(w, r.unknown);
  w.texts("doubts", times.doubts(plan)).end_object();
  ReplayTexts texts{w.text(), ""};
  if (plan.grid.pipeline() > 1)
    texts.svg = picture(schedule, r.ranks, times.message_seconds().value_or(0));
  return texts;
}

}  // namespace plait::plan
