// Appends collectives to programs.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan_draft.hpp"

namespace plait::plan {

// Adds a collective to plan.collectives and returns its index. n is filled in by the functions
// below.
int32_t add_collective(PlanDraft& plan, std::string name, topology::Axis axis, uint32_t kind);

// The number of ranks in this rank's group along an axis.
int64_t ranks_of(const Plan& plan, topology::Axis axis);

// Starts an all-reduce (sum) of in[0] in place; the other values are inside that memory and are
// waited for.
program::ValueId start_all_reduce(program::Graph& g, PlanDraft& plan, int32_t collective,
                                  std::vector<program::ValueId> in);
// Starts a reduce-scatter (sum) of in[0] (R*n); this rank's row (n) is written to `buffer`.
program::ValueId start_reduce_scatter(program::Graph& g, PlanDraft& plan, int32_t collective,
                                      std::vector<program::ValueId> in, BufferRef buffer);
// The same with a transient result.
program::ValueId start_reduce_scatter(program::Graph& g, PlanDraft& plan, int32_t collective,
                                      std::vector<program::ValueId> in);
// Starts an all-gather of in[0] (n); all rows (R*n) are written to `buffer`.
program::ValueId start_all_gather(program::Graph& g, PlanDraft& plan, int32_t collective,
                                  std::vector<program::ValueId> in, BufferRef buffer);
// The same with all rows in a buffer of the program.
program::ValueId start_all_gather(program::Graph& g, PlanDraft& plan, int32_t collective,
                                  std::vector<program::ValueId> in, program::ValueId buffer);
// Starts sending v to another rank of its pipeline, directly from its memory; returns v.
program::ValueId start_send(program::Graph& g, PlanDraft& plan, int32_t collective,
                            program::ValueId v);
// Starts receiving a message, or what the peer of a broadcast sends. The result is transient unless
// it is bound to a buffer.
program::ValueId start_receive(program::Graph& g, PlanDraft& plan, int32_t collective,
                               const plait_shape& shape);
// Starts a broadcast of in[0] from one rank of the axis, the collective's peer, to all, in place;
// the other values are inside that memory and are waited for.
program::ValueId start_broadcast(program::Graph& g, PlanDraft& plan, int32_t collective,
                                 std::vector<program::ValueId> in);
// Ops appended after this call run after the collective has finished; v is in the memory of its
// result. Returns the result.
// sent: transient memory that must stay alive until then, or 0.
program::ValueId wait_collective(program::Graph& g, int32_t collective, program::ValueId v,
                                 program::ValueId sent = 0);
// The same for a collective that may have been started on another slot. v is in memory outside the
// program.
void wait_for_slot(program::Graph& g, int32_t collective, program::ValueId v, int32_t slot);

}  // namespace plait::plan
