// Makes plans: chooses the grid, the device and the datasets, traces the models, lays out memory
// and writes the programs of all entry points.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.hpp"
#include "engine/base/log.hpp"
#include "engine/config/experiment.hpp"
#include "engine/plan/decisions.hpp"
#include "engine/plan/plan.hpp"
#include "engine/plan/plan_draft.hpp"

namespace plait::plan {

struct PlanContext {
  std::shared_ptr<plugin::Registry> registry;
  Log* log = nullptr;
  config::PathResolver resolver;
  int32_t rank = 0;
  int32_t world = 1;  // number of ranks; 0: as many as [topology] asks for
  // The plan of another rank of the same experiment, whose datasets and device are used again;
  // null: they are opened and chosen.
  const Plan* sibling = nullptr;
};

// Owns the draft until it is a plan.
class PlanBuilder {
 public:
  PlanBuilder(const config::Experiment& experiment, const PlanContext& context);

  // An entry point behind those that every plan has.
  void add(WriteEntryPoint write) { entry_points_.push_back(std::move(write)); }
  // Once. Adds faults of the experiment that only tracing shows to `problems`; returns null if
  // there are any. Errors: PLAIT_ERR_UNIMPLEMENTED for an op without a kernel; errors of plugins.
  std::unique_ptr<const Plan> build(config::Problems& problems);

 private:
  void choose_inputs(config::Problems& problems);
  void declare_results(config::Problems& problems);
  void trace(config::Problems& problems);
  void lay_out();
  void write_entry_points();
  void add_totals();
  void end_phase(std::string name);
  std::unique_ptr<const Plan> finish();

  const PlanContext context_;
  LogRecord record_;
  Stopwatch watch_;  // of the phase that runs
  std::vector<Phase> phases_;
  PlanDraft draft_;
  bool trains_ = false;  // has a [data.train], which generate.only leaves out
  TracedModels traced_;
  std::vector<WriteEntryPoint> entry_points_;
};

// PlanBuilder::build() with the entry points of every plan.
std::unique_ptr<const Plan> make_plan(const config::Experiment& experiment,
                                      const PlanContext& context, config::Problems& problems);

}  // namespace plait::plan
