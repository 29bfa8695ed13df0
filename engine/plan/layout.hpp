// The flat memory of groups: where parameters lie, how replicas share it, and what a rank holds of
// each tensor.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/plan_draft.hpp"
#include "kit/quantized.hpp"

namespace plait::plan {

// When all parameters and their holders are known: makes the groups, gives parameters their
// places in the groups' memory, and shares that out among the replicas.
void lay_out_parameters(PlanDraft& plan);

// Whose gradients a parameter's are clipped with: GradientNorm::adapter. Needs only the names of
// the parameter.
std::string norm_of(const Plan& plan, const Parameter& parameter);
// Names the segments of a group: unique among groups.
std::string segment_name(const ParameterGroup& group);
// What metrics and tables call it: the name that its settings give it, with that of its model where
// there are several, else ParameterGroup::name.
std::string title_of(const Plan& plan, const ParameterGroup& group);
// The group of flat memory that a parameter lies in: a frozen one with ZeRO 3 only. After
// lay_out_parameters().
const ParameterGroup& group_of(const Plan& plan, const Parameter& parameter);
// The bucket that it lies in. After lay_out_parameters().
const Bucket& bucket_of(const Plan& plan, const Parameter& parameter);
// The parameters of each bucket of Plan::groups[group], in the order in which they lie.
std::vector<std::vector<const Parameter*>> bucket_members(const Plan& plan, size_t group);
// The elements of the group that a replica updates: its shard of the bucket.
topology::Range shard_of(const Plan& plan, const Bucket& bucket, int32_t replica);
// Where this rank's own elements of a bucket lie.
BufferRef parameter_shard(const Plan& plan, const ParameterGroup& group, const Bucket& bucket);
BufferRef gradient_shard(const Plan& plan, const ParameterGroup& group, const Bucket& bucket);
// This rank updates the first of the parameter's elements; with PLAIT_SCOPE_TENSOR all of them.
bool is_owned(const Plan& plan, const Parameter& parameter);
// What one of the tensor ranks has of a shape that they share along `shard_dim`, padding included.
// -1: all of it.
plait_shape local_shape(const Plan& plan, plait_shape shape, int32_t shard_dim);
// This rank has all of the parameter, as one block.
bool is_fully_local(const Plan& plan, const Parameter& parameter);

// Whether replicas hold a shard of the parameter each (ZeRO 3).
bool is_divided(const Plan& plan, const Parameter& parameter);

// Rows of a weight as numbers and scales: see frozen_numbers.hpp.
struct NumberedBlock {
  BufferRef numbers, scales;
  kit::QuantRow row;
};

// A block of a global tensor that lies in one piece in this rank's memory, row-major; a split
// parameter (halves.hpp) in two: bf16 at `at`, and what they lack at `rest`; a
// quantized one only as `numbered`.
struct LocalBlock {
  topology::Box box;
  BufferRef at;
  uint32_t dtype = 0;  // of its elements, for hosts and files
  BufferRef rest = {};
  std::optional<NumberedBlock> numbered = {};
  bool is_split() const { return rest.segment >= 0; }
  bool is_plain() const { return !is_split() && !numbered; }
};
// The block of a parameter on this rank. The blocks of all ranks cover the tensor; blocks of
// replicas may be equal.
std::vector<LocalBlock> local_parameter_blocks(const Plan& plan, const Parameter& parameter);
// The same, but as bytes of this rank's memory: of a quantized one, numbers and scales as tensors.
std::vector<LocalBlock> stored_blocks(const Plan& plan, const Parameter& parameter);
// What the same rank of another replica holds, if the replicas share every bucket evenly.
std::vector<LocalBlock> local_parameter_blocks(const Plan& plan, const Parameter& parameter,
                                               int32_t replica);

// A state of a parameter, a global tensor like it, and what this rank holds of it.
struct StateBlocks {
  std::string name;
  double initial = 0;
  plait_shape shape{};   // global
  bool sharded = false;  // tensor ranks have a shard each
  std::vector<LocalBlock> blocks;
};
// All states of a parameter, on every rank; none of a frozen one.
std::vector<StateBlocks> local_states(const Plan& plan, const Parameter& parameter);
// Of another replica, as local_parameter_blocks().
std::vector<StateBlocks> local_states(const Plan& plan, const Parameter& parameter,
                                      int32_t replica);

// The runs of a block that follow each other in the global tensor, too: first element there, first
// in the block, how many.
void for_each_run(const plait_shape& global, const topology::Box& box,
                  const std::function<void(int64_t global_first, int64_t first, int64_t n)>& visit);

}  // namespace plait::plan
