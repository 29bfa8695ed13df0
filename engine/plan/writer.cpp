#include "engine/plan/writer.hpp"

#include <algorithm>

#include "engine/base/text.hpp"
#include "engine/plan/budget.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/stages.hpp"

namespace plait::plan {

namespace {

void warn_unused(const Plan& plan, const Written& w, Log* log) {
  if (!log) return;
  for (const Parameter& p : plan.parameters) {
    const auto leaf = [&](const Leaf& l) { return l.parameter == &p && (p.frozen || l.gradient); };
    if (std::none_of(w.leaves.begin(), w.leaves.end(), leaf))
      log->warn("[plan] no loss depends on parameter '" + p.name +
                "'; only weight decay will change it");
  }
}

// All of what was written is one program.
Here whole(program::Graph& g, bool last) {
  return {g, [](program::ValueId v, int32_t) { return v; },
          [](const Leaf& leaf) { return leaf.value; }, 0, last};
}

}  // namespace

std::unique_ptr<Tracer> Writer::trace(bool training, const StageOf& stages,
                                      config::Problems* problems) const {
  // Where one of the two could not be opened, the other tells what there is to know of fields.
  Source source{nullptr, nullptr, "train"};
  for (const char* name : {training ? "train" : "eval", training ? "eval" : "train"})
    if (const Dataset* dataset = plan_.dataset(name); dataset && !source.dataset)
      source = {dataset, plan_.experiment.dataset(name), name};
  auto tracer = std::make_unique<Tracer>(plan_, training ? plan_.train_feed : plan_.eval_feed,
                                         source, training, stages, problems);
  tracer->run();
  return tracer;
}

std::unique_ptr<Tracer> Writer::trace(bool training) const {
  return trace(training, stage_of(plan_));
}

void Writer::lay_out() {
  {
    // All of them first: they tell which parameters there are, and who reads them.
    const auto train = trace(true), evaluate = trace(false);
    note_holders(plan_, {train.get(), evaluate.get()});
  }
  lay_out_parameters(plan_);
}

void Writer::write() {
  if (plan_.sums_up())
    plan_.step_turns.push_back({plan_.add(compile("begin", write_begin(plan_), plan_)), 0, -1, -1});
  if (plan_.grid.pipeline() > 1)
    write_stages();
  else
    write_whole();
  if (plan_.grid.pipeline() > 1)
    plan_.outputs_program = plan_.add(compile("outputs", write_outputs(plan_), plan_));
  if (plan_.grid.ranks() > 1)
    plan_.total = plan_.add(compile("total", write_total(plan_, of_evaluation_), plan_));
}

void Writer::write_update_program() {
  Program update = compile("update", write_update(plan_, of_step_), plan_);
  update.order = 3 * plan_.pipeline.stages();
  plan_.step_turns.push_back({plan_.add(std::move(update)), 0, -1, plan_.accumulation});
}

AddExchange Writer::add_to_plan() {
  return [this](Exchange e) {
    plan_.exchanges.push_back(std::move(e));
    return static_cast<int32_t>(plan_.exchanges.size() - 1);
  };
}

void Writer::write_whole() {
  const bool replicated = plan_.grid.data() > 1, accumulates = plan_.accumulation > 1;
  int32_t micro = -1, last = -1;
  const auto program = [&](const char* name, bool is_last, int32_t& into) {
    const Undo undo(plan_);
    const auto attempt = [&](Recompute& recompute) {
      undo();
      Written w = write_training(plan_, *trace(true), recompute, add_to_plan());
      if (is_last && recompute.cheapest == 0) warn_unused(plan_, w, log_);
      deliver_training(plan_, w, whole(*w.graph, is_last));
      into = plan_.add(compile(name, std::move(w.graph), plan_));
      return plan_.programs.back().transient_bytes;
    };
    fit(plan_.experiment.topology, {{"", attempt}});
  };
  if (replicated) program("last", true, last);
  if (!replicated || accumulates) program("micro", !replicated, micro);
  if (!replicated) last = micro;
  for (int64_t m = 0; m < plan_.accumulation; ++m)
    plan_.step_turns.push_back({m == plan_.accumulation - 1 ? last : micro, 0, 0, m});
  write_update_program();
  Written w = write_evaluation(plan_, *trace(false), add_to_plan());
  place_evaluation(plan_, w);
  deliver_evaluation(plan_, w, whole(*w.graph, false));
  plan_.evaluation_turns.push_back(
      {plan_.add(compile("evaluate", std::move(w.graph), plan_)), 0, 0, 0});
  plan_.train_feeds = {plan_.train_feed};
  plan_.eval_feeds = {plan_.eval_feed};
}

// Each piece makes its own exchanges of those of the whole program.
AddExchange Writer::add_to(std::vector<Exchange>& exchanges) {
  return [&exchanges](Exchange e) {
    exchanges.push_back(std::move(e));
    return StageWriter::local_id(exchanges.size() - 1);
  };
}

// Returns the bytes of the values inside.
uint64_t Writer::write_step_stages(Recompute& recompute) {
  std::vector<Exchange> exchanges;
  of_step_.clear();
  const Written w = write_training(plan_, *trace(true), recompute, add_to(exchanges));
  if (recompute.cheapest == 0) warn_unused(plan_, w, log_);
  return write_training_stages(plan_, w, exchanges, of_step_);
}

namespace {

// " in stages 0, 2".
std::string in_stages(const topology::PipelineShape& shape, int32_t rank) {
  std::vector<std::string> stages;
  for (int32_t c = 0; c < shape.chunks; ++c) stages.push_back(std::to_string(shape.stage(rank, c)));
  return (stages.size() > 1 ? " in stages " : " in stage ") + join(stages);
}

}  // namespace

// What the other ranks of the pipeline need decides, too, so their programs are written here as well, and dropped.
void Writer::write_stages() {
  const topology::PipelineShape& shape = plan_.pipeline.schedule.shape;
  std::vector<Budgeted> all;
  std::vector<std::unique_ptr<Plan>> twins;
  for (int32_t r = 0; r < shape.ranks; ++r) {
    Plan* plan = &plan_;
    if (r != plan_.at.pipeline) {
      if (plan_.experiment.topology.recompute != "budget") continue;
      plan = twins.emplace_back(twin_of(plan_, r)).get();
      Writer(*plan, nullptr).lay_out();
    }
    const auto undo = std::make_shared<const Undo>(*plan);
    all.push_back({in_stages(shape, r), [this, plan, undo](Recompute& recompute) {
                     (*undo)();
                     if (plan == &plan_) return write_step_stages(recompute);
                     return Writer(*plan, nullptr).write_step_stages(recompute);
                   }});
  }
  fit(plan_.experiment.topology, all);
  std::vector<Exchange> exchanges;
  write_update_program();
  const Written w = write_evaluation(plan_, *trace(false), add_to(exchanges));
  place_evaluation(plan_, w);
  write_evaluation_stages(plan_, w, exchanges, of_evaluation_);
}

}  // namespace plait::plan
