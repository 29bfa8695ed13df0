#include "engine/plan/budget.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::plan {

Undo::Undo(Plan& plan)
    : plan_(plan),
      storage_(plan.storage),
      models_(plan.models),
      parameters_(plan.parameters),
      exchanges_(plan.exchanges.size()),
      programs_(plan.programs.size()),
      turns_(plan.step_turns.size()),
      feeds_(plan.train_feeds.size()) {}

void Undo::operator()() const {
  plan_.storage = storage_;
  plan_.models = models_;
  std::copy(parameters_.begin(), parameters_.end(), plan_.parameters.begin());
  plan_.exchanges.resize(exchanges_);
  plan_.programs.resize(programs_);
  plan_.step_turns.resize(turns_);
  plan_.train_feeds.resize(feeds_);
}

namespace {

[[noreturn]] void refuse(const std::vector<Budgeted>& all, const std::vector<uint64_t>& least,
                         uint64_t budget) {
  // Each of them may be within it, but not all with the same values made again.
  const bool any = std::any_of(least.begin(), least.end(), [&](uint64_t n) { return n > budget; });
  std::vector<std::string> takes;
  for (size_t i = 0; i < all.size(); ++i)
    if (least[i] > budget || !any)
      takes.push_back(human_bytes(least[i]) + " at least" + all[i].where);
  fail_config(
      "[topology] topology.recompute_budget: the values inside the training program take " +
      join(takes) +
      strf(", whatever is made again, topology.recompute_budget allows %s; raise it, or lower "
           "batch.micro",
           human_bytes(budget).c_str()));
}

}  // namespace

void fit(const config::TopologyConfig& topology, std::vector<Budgeted> all) {
  Recompute recompute{topology.recompute, 0, 0};
  if (topology.recompute != "budget") {
    for (const Budgeted& one : all) one.attempt(recompute);
    return;
  }
  const auto budget = static_cast<uint64_t>(topology.recompute_budget * (1 << 20));
  std::vector<uint64_t> least(all.size(), UINT64_MAX);
  const auto fits = [&] {
    bool within = true;
    for (size_t i = 0; i < all.size(); ++i) {
      const uint64_t bytes = all[i].attempt(recompute);
      least[i] = std::min(least[i], bytes);
      within &= bytes <= budget;
    }
    return within;
  };
  if (fits()) return;
  // The fewest that do. Not more than kAttempts: a plan is to come soon, and neighbours differ little.
  constexpr size_t kAttempts = 64;
  const size_t n = recompute.candidates,
               stride = std::max<size_t>(1, (n + kAttempts - 1) / kAttempts);
  for (recompute.cheapest = stride; recompute.cheapest < n + stride; recompute.cheapest += stride)
    if (fits()) return;
  refuse(all, least, budget);
}

std::unique_ptr<Plan> twin_of(const Plan& plan, int32_t pipeline) {
  auto twin = std::make_unique<Plan>();
  twin->experiment = plan.experiment;
  twin->registry = plan.registry;
  twin->rules = std::make_unique<program::RuleBook>(*plan.registry);
  twin->device = plan.device;
  twin->device_options = plan.device_options;
  twin->threads = plan.threads;
  twin->grid = plan.grid;
  twin->at = plan.at;
  twin->at.pipeline = pipeline;
  twin->rank = plan.grid.rank(twin->at);
  twin->pipeline = plan.pipeline;
  twin->zero = plan.zero;
  twin->datasets = plan.datasets;
  twin->storage = plan.storage;
  twin->parameters = plan.parameters;
  for (Parameter& p : twin->parameters) {
    p.holders.clear();
    p.chunk = p.part = 0;
    p.group = -1;
    p.flat = 0;
    p.value = p.gradient = p.squares = {};
  }
  twin->models = plan.models;
  twin->step = plan.step;
  twin->votes = plan.votes;
  twin->train_feed = plan.train_feed;
  twin->eval_feed = plan.eval_feed;
  twin->accumulation = plan.accumulation;
  twin->total_steps = plan.total_steps;
  return twin;
}

}  // namespace plait::plan
