// Writes the programs of a plan: of a step, of an evaluation, and those between ranks.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/plan/pipeline.hpp"
#include "engine/plan/plan.hpp"
#include "engine/plan/step_programs.hpp"
#include "engine/plan/trace.hpp"

namespace plait::plan {

// The models of a plan as they train and as they are evaluated, in the stages that it has chosen.
// Also of its twins: see budget.hpp.
struct TracedModels {
  std::shared_ptr<const Tracer> train, evaluate;
};

class ProgramBuilder {
 public:
  // log: for warnings; may be null.
  ProgramBuilder(Plan& plan, Log* log) : plan_(plan), log_(log) {}
  // The models as they train, or as they are evaluated. stages: of each layer; without it as the
  // plan has chosen. problems: where what fails goes; null: it is thrown.
  std::unique_ptr<Tracer> trace(bool training, const StageOf& stages,
                                config::Problems* problems = nullptr) const;
  std::unique_ptr<Tracer> trace(bool training) const;
  // What programs are written from. Before lay_out() and write().
  void use(TracedModels traced) { traced_ = std::move(traced); }
  // Places the parameters, in the stages that read them.
  void lay_out();
  // Adds programs and launches to the plan, whose parameters are laid out. Errors: PLAIT_ERR_CONFIG
  // for a budget that cannot be met.
  void write();

 private:
  void write_whole();
  void write_stages();
  void write_update_program();
  AddCollective add_to_plan();
  static AddCollective add_to(std::vector<Collective>& collectives);
  uint64_t write_step_stages(RecomputeOptions& recompute);

  Plan& plan_;
  Log* log_;
  TracedModels traced_;
  std::vector<PendingSend> of_step_,
      of_evaluation_;  // messages that their programs do not wait for
};

}  // namespace plait::plan
