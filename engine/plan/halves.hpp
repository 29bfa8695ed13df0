// Parameters in two halves (precision.split_master): the bf16 that products read, and the 16 bits
// that it lacks. Together they are the f32 that optimizers, checkpoints and hosts know; see
// kit/ops/halves.hpp. The update joins and splits a piece at a time, and a table is joined row by
// row; statistics and generation with weights of 8 bits join the whole of one parameter after
// another.
#pragma once

#include "engine/plan/plan_draft.hpp"
#include "engine/plan/step_programs.hpp"

namespace plait::plan {

// What the bf16 lack is kept as numbers of this type, so many for `elements` of a parameter.
inline constexpr uint32_t kRestType = PLAIT_U8;
constexpr int64_t rest_entries(int64_t elements) { return 2 * elements; }

// Both halves of the same elements.
struct SplitValue {
  program::ValueId high = 0, rest = 0;
};
// Elements of a group from `first` on, which is split.
SplitValue split_elements(program::Graph& g, const ParameterGroup& group, int64_t first,
                          int64_t elements);
// The part of it that has this shape and begins with element `first` of it.
SplitValue part_of(program::Graph& g, const SplitValue& all, int64_t first, plait_shape shape);
// All elements of a split parameter, as this rank has them in that shape.
SplitValue halves_of(program::Graph& g, const Parameter& p, const plait_shape& shape);
program::ValueId joined(program::Graph& g, const SplitValue& v);
// Writes `v` over the target. Returns the target as it is then.
SplitValue assign_split(program::Graph& g, const SplitValue& target, program::ValueId v);

// A parameter as a value of that shape, however it lies.
program::ValueId read_whole(program::Graph& g, const Plan& plan, const Parameter& p,
                            const plait_shape& shape);
// Ops that read a split parameter as f32 read its halves instead: of a table those rows that they
// take, of any other parameter all of it, for the time of the op. After read_low_copies().
void read_halves(TracedStep& step);

}  // namespace plait::plan
