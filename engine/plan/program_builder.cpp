#include "engine/plan/program_builder.hpp"

#include <algorithm>
#include <set>

#include "engine/base/text.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/recompute_budget.hpp"
#include "engine/plan/stage_programs.hpp"

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

}  // namespace

std::unique_ptr<Tracer> ProgramBuilder::trace(bool training, const StageOf& stages,
                                              config::Problems* problems) const {
  // Where one of the two could not be opened, the other tells what there is to know of fields.
  TraceSource source{nullptr, nullptr, "train"};
  for (const char* name : {training ? "train" : "eval", training ? "eval" : "train"})
    if (const Dataset* dataset = plan_.dataset(name); dataset && !source.dataset)
      source = {dataset, plan_.experiment.dataset(name), name};
  auto tracer = std::make_unique<Tracer>(plan_, training ? plan_.train_feed : plan_.eval_feed,
                                         source, training, stages, problems);
  tracer->run();
  return tracer;
}

std::unique_ptr<Tracer> ProgramBuilder::trace(bool training) const {
  return trace(training, stage_of(plan_));
}

void ProgramBuilder::lay_out() {
  note_holders(plan_, {traced_.train.get(), traced_.evaluate.get()});
  lay_out_parameters(plan_);
}

void ProgramBuilder::write() {
  if (plan_.accumulates())
    plan_.step_launches.push_back(
        {plan_.add(compile("zero_grad", write_zero_grad(plan_), plan_)), 0, -1, -1});
  if (plan_.grid.pipeline() > 1)
    write_stages();
  else
    write_whole();
  if (plan_.grid.pipeline() > 1)
    plan_.broadcast_outputs_program =
        plan_.add(compile("broadcast_outputs", write_broadcast_outputs(plan_), plan_));
  if (plan_.grid.ranks() > 1)
    plan_.reduce_metrics_program =
        plan_.add(compile("reduce_metrics", write_reduce_metrics(plan_, of_evaluation_), plan_));
}

void ProgramBuilder::write_update_program() {
  Program update = compile("update", write_update(plan_, of_step_), plan_);
  update.order = 3 * plan_.pipeline.stages();
  plan_.step_launches.push_back({plan_.add(std::move(update)), 0, -1, plan_.accumulation});
}

AddCollective ProgramBuilder::add_to_plan() {
  return [this](Collective e) {
    plan_.collectives.push_back(std::move(e));
    return static_cast<int32_t>(plan_.collectives.size() - 1);
  };
}

void ProgramBuilder::write_whole() {
  const bool replicated = plan_.grid.data() > 1, accumulates = plan_.accumulation > 1;
  int32_t micro = -1, last = -1;
  const auto program = [&](const char* name, bool is_last, int32_t& into) {
    const PlanSnapshot restore(plan_);
    const auto attempt = [&](RecomputeOptions& recompute) {
      restore();
      TracedStep w = write_training(plan_, *traced_.train, recompute, add_to_plan());
      if (is_last && recompute.n_cheapest == 0) warn_unused(plan_, w, log_);
      bind_training_outputs(plan_, w, whole_step_view(*w.graph, is_last));
      into = plan_.add(compile(name, std::move(w.graph), plan_));
      return plan_.programs.back().transient_bytes;
    };
    solve_recompute_budget(plan_.experiment.topology, {{"", attempt}});
  };
  if (replicated) program("forward_backward_reduce", true, last);
  if (!replicated || accumulates) program("forward_backward", !replicated, micro);
  if (!replicated) last = micro;
  for (int64_t m = 0; m < plan_.accumulation; ++m)
    plan_.step_launches.push_back({m == plan_.accumulation - 1 ? last : micro, 0, 0, m});
  write_update_program();
  TracedStep w = write_evaluation(plan_, *traced_.evaluate, add_to_plan());
  allocate_evaluation_results(plan_, w);
  bind_evaluation_outputs(plan_, w, whole_step_view(*w.graph, false));
  plan_.evaluation_launches.push_back(
      {plan_.add(compile("evaluate", std::move(w.graph), plan_)), 0, 0, 0});
  plan_.train_feeds = {plan_.train_feed};
  plan_.eval_feeds = {plan_.eval_feed};
}

// Each stage program has collectives of its own, made from the collectives of the whole program.
AddCollective ProgramBuilder::add_to(std::vector<Collective>& collectives) {
  return [&collectives](Collective e) {
    collectives.push_back(std::move(e));
    return StageProgramBuilder::local_id(collectives.size() - 1);
  };
}

// Returns the bytes of the values inside.
uint64_t ProgramBuilder::write_step_stages(RecomputeOptions& recompute) {
  std::vector<Collective> collectives;
  of_step_.clear();
  const TracedStep w = write_training(plan_, *traced_.train, recompute, add_to(collectives));
  if (recompute.n_cheapest == 0) warn_unused(plan_, w, log_);
  return write_training_stages(plan_, w, collectives, of_step_);
}

namespace {

// " in stages 0, 2".
std::string in_stages(const topology::PipelineShape& shape, int32_t rank) {
  std::vector<std::string> stages;
  for (int32_t c = 0; c < shape.chunks; ++c) stages.push_back(std::to_string(shape.stage(rank, c)));
  return (stages.size() > 1 ? " in stages " : " in stage ") + join(stages);
}

}  // namespace

// What the other ranks of the pipeline need decides, too, so their programs are written here as
// well, and dropped.
void ProgramBuilder::write_stages() {
  const topology::PipelineShape& shape = plan_.pipeline.schedule.shape;
  std::vector<BudgetedProgram> all;
  std::vector<std::unique_ptr<Plan>> clones;
  const auto twin_writer = [this](Plan& clone) {
    ProgramBuilder writer(clone, nullptr);
    writer.use(traced_);
    return writer;
  };
  for (int32_t r = 0; r < shape.ranks; ++r) {
    Plan* plan = &plan_;
    if (r != plan_.at.pipeline) {
      if (plan_.experiment.topology.recompute != "budget") continue;
      plan = clones.emplace_back(clone_for_stage(plan_, r)).get();
      twin_writer(*plan).lay_out();
    }
    const auto restore = std::make_shared<const PlanSnapshot>(*plan);
    all.push_back(
        {in_stages(shape, r), [this, plan, restore, twin_writer](RecomputeOptions& recompute) {
           (*restore)();
           if (plan == &plan_) return write_step_stages(recompute);
           return twin_writer(*plan).write_step_stages(recompute);
         }});
  }
  solve_recompute_budget(plan_.experiment.topology, all);
  std::vector<Collective> collectives;
  write_update_program();
  const TracedStep w = write_evaluation(plan_, *traced_.evaluate, add_to(collectives));
  allocate_evaluation_results(plan_, w);
  write_evaluation_stages(plan_, w, collectives, of_evaluation_);
}

}  // namespace plait::plan
