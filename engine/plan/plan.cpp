#include "engine/plan/plan.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/program/shape.hpp"

namespace plait::plan {

const Dataset* Plan::dataset(const std::string& name) const {
  for (const auto& d : datasets)
    if (d->name() == name) return d.get();
  return nullptr;
}

const Parameter* Plan::parameter(const std::string& name) const {
  for (const Parameter& p : parameters)
    if (p.name == name) return &p;
  return nullptr;
}

data::DataLoaderConfig loader_config(const Plan& plan, const std::string& dataset, bool training) {
  const config::DatasetConfig& c = *plan.experiment.dataset(dataset);
  data::DataLoaderConfig l;
  l.batch = training ? plan.experiment.batch.global : plan.experiment.batch.eval;
  l.seed = static_cast<uint64_t>(plan.experiment.run.seed);
  l.shuffle = training && c.shuffle;
  l.limit = c.limit;
  l.prefetch = static_cast<int>(c.prefetch);
  l.endless = training;
  l.by_epoch = training;
  l.rows = l.batch / plan.grid.data();
  l.row_begin = plan.at.data * l.rows;
  return l;
}

const Program* Plan::program(const std::string& name) const {
  for (const Program& p : programs)
    if (p.name == name) return &p;
  return nullptr;
}

const EntryPoint* Plan::find_entry_point(std::string_view name) const {
  for (const EntryPoint& e : entry_points)
    if (e.name == name) return &e;
  return nullptr;
}

const EntryPoint& Plan::entry_point(std::string_view name) const {
  if (const EntryPoint* e = find_entry_point(name)) return *e;
  if (!experiment.generate.only)
    fail_internal("[plan] a plan without entry point '" + std::string(name) + "'");
  static const EntryPoint none;
  return none;
}

int64_t Plan::n_step_sums() const {
  int64_t n = n_counts();
  for (const Model& m : models) n += !m.trained ? 0 : (m.n_weights > 0 ? 1 : 2) + 2 * m.n_means;
  for (const Metric& m : train_metrics) n += m.n_state();
  return n;
}

uint64_t Plan::hash() const {
  Hasher h;
  // Sharding does not count: a checkpoint holds whole tensors.
  for (const Parameter& p : parameters) {
    h.update(p.name + program::text(p.shape));
    if (p.group < 0) continue;
    const ParameterGroup& g = groups[static_cast<size_t>(p.group)];
    h.update(g.name);
    for (const OptimizerState& s : g.states) h.update(s.name);
    for (const TensorState& s : p.states) h.update(s.name + program::text(s.shape));
  }
  return h.digest64();
}

}  // namespace plait::plan
