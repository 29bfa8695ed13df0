// Writing collectives between ranks into programs.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan.hpp"

namespace plait::plan {

// Adds it to plan.collectives; returns its index. n is filled in by the functions below.
int32_t add_collective(Plan& plan, std::string name, topology::Axis axis, uint32_t kind);

// How many ranks take part in a collective over that axis, on this rank's place of the grid.
int64_t ranks_of(const Plan& plan, topology::Axis axis);

// Starts all-reduce, a sum, of in[0] in its own memory; the other values lie inside of that memory, and are waited for.
program::ValueId start_all_reduce(program::Graph& g, Plan& plan, int32_t collective,
                                  std::vector<program::ValueId> in);
// Starts reduce-scatter of in[0] (R*n), a sum; this rank's row (n) ends up at `place`.
program::ValueId start_reduce_scatter(program::Graph& g, Plan& plan, int32_t collective,
                                      std::vector<program::ValueId> in, BufferRef buffer);
// The same, with a transient result.
program::ValueId start_reduce_scatter(program::Graph& g, Plan& plan, int32_t collective,
                                      std::vector<program::ValueId> in);
// Starts all-gather of in[0] (n); all rows (R*n) end up at `place`.
program::ValueId start_all_gather(program::Graph& g, Plan& plan, int32_t collective,
                                  std::vector<program::ValueId> in, BufferRef buffer);
// The same, with all rows in a buffer of the program.
program::ValueId start_all_gather(program::Graph& g, Plan& plan, int32_t collective,
                                  std::vector<program::ValueId> in, program::ValueId buffer);
// Starts sending v to another rank of its pipeline, from where it lies; returns it.
program::ValueId start_send(program::Graph& g, Plan& plan, int32_t collective, program::ValueId v);
// Starts receiving. Transient, unless it gets a place.
program::ValueId start_receive(program::Graph& g, Plan& plan, int32_t collective,
                               const plait_shape& shape);
// Starts to hand v on from one rank of the axis, the collective's peer, to all.
program::ValueId start_broadcast(program::Graph& g, Plan& plan, int32_t collective,
                                 program::ValueId v);
// Ops appended from here on run behind the end of the collective; v lies where its result does. Returns the result.
// sent: transient memory that must stay until then, or 0.
program::ValueId wait_collective(program::Graph& g, int32_t collective, program::ValueId v,
                                 program::ValueId sent = 0);
// The same for what was started on another slot, if it was. v lies in memory outside of the program.
void wait_for_slot(program::Graph& g, int32_t collective, program::ValueId v, int32_t slot);

}  // namespace plait::plan
