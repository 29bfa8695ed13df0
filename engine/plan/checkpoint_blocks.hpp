// The checkpoint content of a plan: blocks of global tensors, and the rank that writes each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/plan/layout.hpp"
#include "engine/plan/plan.hpp"

namespace plait::plan {

// A block of a tensor in a checkpoint that this rank holds.
struct CheckpointBlock {
  std::string tensor;          // "model.linear1.weight", "model.linear1.weight.momentum"
  const Parameter& parameter;  // itself, or that the state belongs to
  plait_shape shape;           // of the global tensor
  LocalBlock local;
  bool optimizer;
  bool ours;  // this rank writes it: replicated blocks are written by one of the replicas
  // Part of a checkpoint: frozen ones are with checkpoint.save = "all" unless they are quantized.
  bool saved;
  uint64_t bytes() const;
};

// Whether checkpoints hold the parameter.
bool is_saved(const Plan& plan, const Parameter& parameter);

// Visits every block of every tensor: parameters, then the optimizer states of each parameter.
void for_each_block(const Plan& plan, const std::function<void(const CheckpointBlock&)>& visit);

// Bytes that this rank writes to a checkpoint.
uint64_t checkpoint_bytes(const Plan& plan);

// Bytes of host memory for the copy from which this rank's part of a checkpoint is written while
// training continues; 0 if the run makes no checkpoints.
uint64_t checkpoint_copy_bytes(const Plan& plan);
// The same of the rank of another replica, if the replicas share every bucket evenly.
uint64_t checkpoint_copy_bytes(const Plan& plan, int32_t replica);

}  // namespace plait::plan
