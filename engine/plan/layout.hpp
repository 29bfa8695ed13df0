// The flat memory of groups: where parameters lie, how replicas share it, and what a rank holds of
// each tensor.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"

namespace plait::plan {

// When all parameters are known, and who holds them: makes the groups, gives parameters their
// places in the groups' memory, and shares that out among the replicas.
void lay_out_parameters(Plan& plan);

// Names the segments of a group: unique among groups.
std::string segment_name(const ParameterGroup& group);
// The bucket that a trained parameter lies in. After lay_out_parameters().
const Bucket& bucket_of(const Plan& plan, const Parameter& parameter);
// Where this rank's own elements of a bucket lie.
BufferRef parameter_shard(const Plan& plan, const ParameterGroup& group, const Bucket& bucket);
BufferRef gradient_shard(const Plan& plan, const ParameterGroup& group, const Bucket& bucket);
// This rank has all of the parameter, in one piece, at its `value`.
bool is_fully_local(const Plan& plan, const Parameter& parameter);

// A block of a global tensor that lies in one piece in this rank's memory, row-major.
struct LocalBlock {
  topology::Box box;
  BufferRef at;
  uint32_t dtype = 0;
};
// What this rank holds of a parameter, and of a state of it. The blocks of all ranks cover the
// tensor; those of replicas may be equal.
std::vector<LocalBlock> local_parameter_blocks(const Plan& plan, const Parameter& parameter);
std::vector<LocalBlock> local_state_blocks(const Plan& plan, const Parameter& parameter,
                                           const State& state);

// The runs of a block that follow each other in the global tensor, too: first element there, first
// in the block, how many.
void for_each_run(const plait_shape& global, const topology::Box& box,
                  const std::function<void(int64_t global_first, int64_t first, int64_t n)>& visit);

}  // namespace plait::plan
