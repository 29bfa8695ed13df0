#include "engine/plan/writer.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/stages.hpp"

namespace plait::plan {

namespace {

// Makes the programs of the training step with ever more recomputation, until what they keep is within the budget; without a budget
// once. attempt: adds them to the plan, returns the bytes of the values inside.
void fit(Plan& plan, const std::function<uint64_t(Recompute&)>& attempt) {
  const auto& t = plan.experiment.topology;
  Recompute recompute{t.recompute, 0, 0};
  // What an attempt adds or sets.
  const Storage storage = plan.storage;
  const std::vector<Model> models = plan.models;
  const std::vector<Parameter> parameters = plan.parameters;
  const size_t exchanges = plan.exchanges.size(), programs = plan.programs.size(),
               turns = plan.step_turns.size(), feeds = plan.train_feeds.size();
  const auto again = [&] {
    plan.storage = storage;
    plan.models = models;
    std::copy(parameters.begin(), parameters.end(), plan.parameters.begin());
    plan.exchanges.resize(exchanges);
    plan.programs.resize(programs);
    plan.step_turns.resize(turns);
    plan.train_feeds.resize(feeds);
    return attempt(recompute);
  };
  uint64_t least = again();
  if (t.recompute != "budget") return;
  const auto budget = static_cast<uint64_t>(t.recompute_budget * (1 << 20));
  if (least <= budget) return;
  // The fewest that do. Not more than kAttempts: a plan is to come soon, and neighbours differ little.
  constexpr size_t kAttempts = 64;
  const size_t n = recompute.candidates,
               stride = std::max<size_t>(1, (n + kAttempts - 1) / kAttempts);
  for (recompute.cheapest = stride; recompute.cheapest < n + stride; recompute.cheapest += stride) {
    const uint64_t bytes = again();
    if (bytes <= budget) return;
    least = std::min(least, bytes);
  }
  fail_config(
      strf("the values inside the training program take %s at least, whatever is made again, "
           "topology.recompute_budget allows %s; raise it, or lower batch.micro",
           human_bytes(least).c_str(), human_bytes(budget).c_str()));
}

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

std::unique_ptr<Tracer> Writer::trace(bool training, const StageOf& stages) const {
  const std::string dataset = training || !plan_.dataset("eval") ? "train" : "eval";
  auto tracer = std::make_unique<Tracer>(plan_, training ? plan_.train_feed : plan_.eval_feed,
                                         *plan_.dataset(dataset),
                                         *plan_.experiment.dataset(dataset), training, stages);
  tracer->run();
  return tracer;
}

std::unique_ptr<Tracer> Writer::trace(bool training) const {
  return trace(training, stage_of(plan_));
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
    fit(plan_, [&](Recompute& recompute) {
      Written w = write_training(plan_, *trace(true), recompute, add_to_plan());
      if (is_last && recompute.cheapest == 0) warn_unused(plan_, w, log_);
      deliver_training(plan_, w, whole(*w.graph, is_last));
      into = plan_.add(compile(name, std::move(w.graph), plan_));
      return plan_.programs.back().transient_bytes;
    });
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

void Writer::write_stages() {
  std::vector<Exchange> exchanges;  // of the whole program; each piece makes its own of them
  const AddExchange add = [&](Exchange e) {
    exchanges.push_back(std::move(e));
    return StageWriter::local_id(exchanges.size() - 1);
  };
  fit(plan_, [&](Recompute& recompute) {
    exchanges.clear();
    of_step_.clear();
    const Written w = write_training(plan_, *trace(true), recompute, add);
    if (recompute.cheapest == 0) warn_unused(plan_, w, log_);
    return write_training_stages(plan_, w, exchanges, of_step_);
  });
  write_update_program();
  exchanges.clear();
  const Written w = write_evaluation(plan_, *trace(false), add);
  place_evaluation(plan_, w);
  write_evaluation_stages(plan_, w, exchanges, of_evaluation_);
}

}  // namespace plait::plan
