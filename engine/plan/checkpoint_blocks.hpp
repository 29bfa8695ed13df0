// What a checkpoint holds of a plan: blocks of global tensors, and which rank writes each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/plan/layout.hpp"
#include "engine/plan/plan.hpp"

namespace plait::plan {

// A block of a checkpoint's tensor that this rank holds.
struct CheckpointBlock {
  std::string tensor;  // "model.linear1.weight", "model.linear1.weight.momentum"
  const Parameter& parameter;
  LocalBlock local;
  bool optimizer;
  bool ours;  // this rank writes it: what replicas hold alike, one of them does
  uint64_t bytes() const;
};

// Every block of every tensor: parameters, then the optimizer's states of each parameter.
void for_each_block(const Plan& plan, const std::function<void(const CheckpointBlock&)>& visit);

// Bytes of host memory for the copy that this rank's part of a checkpoint is written from while steps go on; 0 where the run makes
// none.
uint64_t checkpoint_copy_bytes(const Plan& plan);

}  // namespace plait::plan
