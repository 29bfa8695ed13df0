// The flat memory of groups: where parameters lie, how replicas share it, and what a rank holds of each tensor.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"

namespace plait::plan {

// When all parameters are known, and who holds them: makes the groups, gives parameters their places in the groups' memory, and
// shares that out among the replicas.
void lay_out_parameters(Plan& plan);

// Names the segments of a group: unique among groups.
std::string segment_name(const Group& group);
// The part that a trained parameter lies in. After lay_out_parameters().
const Part& part_of(const Plan& plan, const Parameter& parameter);
// Where this rank's own elements of a part lie.
Place own_parameters(const Plan& plan, const Group& group, const Part& part);
Place own_gradients(const Plan& plan, const Group& group, const Part& part);
// This rank has all of the parameter, in one piece, at its `value`.
bool is_whole(const Plan& plan, const Parameter& parameter);

// A block of a global tensor that lies in one piece in this rank's memory, row-major.
struct Held {
  topology::Box box;
  Place at;
};
// What this rank holds of a parameter, and of a state of it. The blocks of all ranks cover the tensor; those of replicas may be equal.
std::vector<Held> held_value(const Plan& plan, const Parameter& parameter);
std::vector<Held> held_state(const Plan& plan, const Parameter& parameter, const State& state);

// The runs of a block that follow each other in the global tensor, too: first element there, first in the block, how many.
void for_each_run(const plait_shape& global, const topology::Box& box,
                  const std::function<void(int64_t global_first, int64_t first, int64_t n)>& visit);

}  // namespace plait::plan
