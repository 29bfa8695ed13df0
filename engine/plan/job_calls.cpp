#include "engine/plan/job_calls.hpp"

#include "engine/program/op_def.hpp"

namespace plait::plan {
namespace {

ProgramCalls calls_of(const Program& program) {
  ProgramCalls all{program.name, {}};
  for (const KernelCall& call : program.calls) {
    if (call.collective < 0) continue;
    const program::Op& op = program.graph->ops()[static_cast<size_t>(call.op)];
    const bool starts = op.def->collective == program::CollectiveOp::kStart;
    // A start is on the slot of its launch; a wait may be for another slot.
    const auto slot = starts ? -1 : static_cast<int32_t>(op.attrs.integer("slot", -1));
    all.calls.push_back({call.collective, starts, slot});
  }
  return all;
}

}  // namespace

RankCalls calls_of(const Plan& plan) {
  RankCalls all;
  all.collectives = plan.collectives;
  for (const Program& p : plan.programs) all.programs.push_back(calls_of(p));
  for (const EntryPoint& e : plan.entry_points)
    all.entry_points.push_back({e.name, e.call, e.leaves, e.launches});
  for (const Segment& s : plan.storage.segments())
    if (s.reduced_along && s.all_bytes() > 0)
      all.shared.push_back({s.name, *s.reduced_along, s.all_bytes()});
  return all;
}

}  // namespace plait::plan
