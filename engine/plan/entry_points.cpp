#include "engine/plan/entry_points.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/base/text.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/kept_float8.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/loss_weights.hpp"
#include "engine/plan/low_copies.hpp"
#include "engine/plan/pipeline.hpp"
#include "engine/plan/recompute_budget.hpp"
#include "engine/plan/stage_programs.hpp"
#include "engine/plan/step_programs.hpp"
#include "engine/plan/trace.hpp"
#include "engine/plan/update.hpp"
#include "engine/program/verify.hpp"

namespace plait::plan {
namespace {

void warn_unused(const Plan& plan, const TracedStep& w, Log* log) {
  if (!log) return;
  std::set<const Parameter*> used;
  for (const ParameterUse& l : w.parameter_uses)
    if (l.parameter->frozen || l.gradient) used.insert(l.parameter);
  for (const Parameter& p : plan.parameters)
    if (!used.contains(&p))
      log->warn("[plan] no loss depends on parameter '" + p.name +
                "'; only weight decay will change it");
}

// All of what was written is one program.
StageView whole_step_view(program::Graph& g, bool last) {
  return {g, [](program::ValueId v, int32_t) { return v; },
          [](const ParameterUse& use) { return use.value; }, 0, last};
}

AddCollective add_to(PlanDraft& plan) {
  return [&plan](Collective c) { return plan.add(std::move(c)); };
}

// Each stage program has collectives of its own, made from the collectives of the whole program.
AddCollective add_to(std::vector<Collective>& collectives) {
  return [&collectives](Collective c) {
    collectives.push_back(std::move(c));
    return StageProgramBuilder::local_id(collectives.size() - 1);
  };
}

// The forward and backward passes of a rank that has all stages.
void write_whole_step(const EntryPointSource& from, EntryPoint& entry) {
  PlanDraft& plan = from.plan;
  const bool replicated = plan.grid.data() > 1, accumulates = plan.accumulation > 1;
  KeptFloat8 kept;
  const auto program = [&](const char* name, bool is_last) {
    int32_t index = -1;
    const DraftSnapshot before(plan);
    const KeptFloat8 kept_before = kept;
    const auto attempt = [&](RecomputeOptions& recompute) {
      before.restore();
      kept = kept_before;
      TracedStep w = write_training(plan, *from.traced.train, recompute, add_to(plan));
      if (is_last && recompute.n_cheapest == 0) warn_unused(plan, w, from.log);
      kept.read_from(plan, w);
      program::verify_after("read_kept_weights", "training", *w.graph);
      bind_training_outputs(plan, w, whole_step_view(*w.graph, is_last));
      index = plan.add(compile(name, std::move(w.graph), plan));
      return plan.programs.back().transient_bytes;
    };
    solve_recompute_budget(plan.experiment.topology, {{"", attempt}});
    return index;
  };
  int32_t micro = -1, last = -1;
  if (replicated) last = program("forward_backward_reduce", true);
  if (!replicated || accumulates) micro = program("forward_backward", !replicated);
  if (!replicated) last = micro;
  if (auto weights = kept.write(plan)) {
    Program quantize = compile("quantize_weights", std::move(weights), plan);
    quantize.order = -1;  // as everything before the forward pass
    entry.launches.push_back({plan.add(std::move(quantize)), 0, -1, -1});
  }
  for (int64_t m = 0; m < plan.accumulation; ++m)
    entry.launches.push_back({m == plan.accumulation - 1 ? last : micro, 0, 0, m});
  entry.stage_feeds = {plan.train_feed};
}

// What the stages of a rank do in a step.
struct StepStages {
  EntryPoint entry;                // launches and feeds
  std::vector<PendingSend> sends;  // messages that they do not wait for
};

// Returns the bytes of the values inside.
uint64_t write_step_stages(const EntryPointSource& from, RecomputeOptions& recompute,
                           StepStages& into) {
  std::vector<Collective> collectives;
  into = {};
  const TracedStep w =
      write_training(from.plan, *from.traced.train, recompute, add_to(collectives));
  if (recompute.n_cheapest == 0) warn_unused(from.plan, w, from.log);
  return write_training_stages(from.plan, w, collectives, into.entry, into.sends);
}

// " in stages 0, 2".
std::string in_stages(const topology::PipelineShape& shape, int32_t rank) {
  std::vector<std::string> stages;
  for (int32_t c = 0; c < shape.chunks; ++c) stages.push_back(std::to_string(shape.stage(rank, c)));
  return (stages.size() > 1 ? " in stages " : " in stage ") + join(stages);
}

// What the other ranks of the pipeline need decides, too, so their programs are written here as
// well, and dropped.
StepStages write_stages(const EntryPointSource& from) {
  PlanDraft& plan = from.plan;
  const topology::PipelineShape& shape = plan.pipeline.schedule.shape;
  StepStages own;
  std::vector<BudgetedProgram> all;
  std::vector<std::unique_ptr<PlanDraft>> clones;
  for (int32_t r = 0; r < shape.ranks; ++r) {
    const bool mine = r == plan.at.pipeline;
    PlanDraft* draft = &plan;
    if (!mine) {
      if (plan.experiment.topology.recompute != "budget") continue;
      draft = clones.emplace_back(clone_for_stage(plan, r)).get();
      note_holders(*draft, from.traced);
      lay_out_parameters(*draft);
    }
    const auto before = std::make_shared<const DraftSnapshot>(*draft);
    all.push_back({in_stages(shape, r), [&from, &own, draft, mine, before](RecomputeOptions& to) {
                     before->restore();
                     StepStages dropped;
                     return write_step_stages({*draft, from.traced, mine ? from.log : nullptr}, to,
                                              mine ? own : dropped);
                   }});
  }
  solve_recompute_budget(plan.experiment.topology, all);
  return own;
}

}  // namespace

EntryPoint write_train_step(const EntryPointSource& from) {
  PlanDraft& plan = from.plan;
  EntryPoint entry{kTrainStep, "a step", plan.train_feed};
  if (plan.accumulates())
    entry.launches.push_back(
        {plan.add(compile("zero_grad", write_zero_grad(plan), plan)), 0, -1, -1});
  const size_t before = entry.launches.size();
  std::vector<PendingSend> sends;
  if (plan.grid.pipeline() > 1) {
    StepStages stages = write_stages(from);
    entry.stage_feeds = std::move(stages.entry.stage_feeds);
    entry.launches.insert(entry.launches.end(), stages.entry.launches.begin(),
                          stages.entry.launches.end());
    sends = std::move(stages.sends);
  } else {
    write_whole_step(from, entry);
  }
  write_loss_weights(from, entry, before);
  Program update = compile("update", write_update(plan, sends), plan);
  update.order = 3 * plan.pipeline.stages();
  entry.launches.push_back({plan.add(std::move(update)), 0, -1, plan.accumulation});
  return entry;
}

EntryPoint write_evaluate(const EntryPointSource& from) {
  PlanDraft& plan = from.plan;
  EntryPoint entry{kEvaluate, "a batch of an evaluation", plan.evaluation_feed};
  entry.leaves = OpenCalls::kMessages;
  const bool staged = plan.grid.pipeline() > 1;
  std::vector<Collective> collectives;
  TracedStep w =
      write_evaluation(plan, *from.traced.evaluate, staged ? add_to(collectives) : add_to(plan));
  allocate_evaluation_results(plan, w);
  if (staged) {
    write_evaluation_stages(plan, w, collectives, entry, plan.evaluation_sends);
    return entry;
  }
  bind_evaluation_outputs(plan, w, whole_step_view(*w.graph, false));
  entry.launches = {{plan.add(compile("evaluate", std::move(w.graph), plan)), 0, 0, 0}};
  entry.stage_feeds = {plan.evaluation_feed};
  return entry;
}

EntryPoint write_predict(const EntryPointSource& from) {
  PlanDraft& plan = from.plan;
  EntryPoint entry = plan.entry_point(kEvaluate);
  entry.name = kPredict;
  entry.call = "a prediction";
  if (plan.grid.pipeline() > 1)
    entry.launches.push_back(
        {plan.add(compile("broadcast_outputs", write_broadcast_outputs(plan), plan)), 0, -1, -1});
  return entry;
}

EntryPoint write_reduce_metrics(const EntryPointSource& from) {
  PlanDraft& plan = from.plan;
  EntryPoint entry{kReduceMetrics, "the end of an evaluation", {}};
  entry.leaves = OpenCalls::kNone;
  if (plan.grid.ranks() > 1)
    entry.launches = {
        {plan.add(compile("reduce_metrics", write_metric_sums(plan), plan)), 0, -1, -1}};
  return entry;
}

EntryPoint write_refresh(const EntryPointSource& from) {
  PlanDraft& plan = from.plan;
  EntryPoint entry{kRefreshLow, "the copies of parameters for products", {}};
  const bool copies = std::any_of(plan.groups.begin(), plan.groups.end(),
                                  [](const ParameterGroup& g) { return g.low.exists(); }) ||
                      std::any_of(plan.parameters.begin(), plan.parameters.end(),
                                  [](const Parameter& p) { return p.low.segment >= 0; });
  if (copies)
    entry.launches = {{plan.add(compile("refresh_low", write_refresh_low(plan), plan)), 0, -1, -1}};
  return entry;
}

std::vector<WriteEntryPoint> standard_entry_points() {
  return {write_train_step, write_evaluate, write_predict, write_reduce_metrics, write_refresh};
}

}  // namespace plait::plan
