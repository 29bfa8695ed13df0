// How a global batch is shared: global = micro * accumulation * data, and any two of the first three give the third.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/topology/extent_split.hpp"
#include "engine/topology/topology_error.hpp"

namespace plait::topology {

// Samples of a step, samples of a micro-batch, micro-batches of a step on each rank. 0: to be found.
struct Batch {
  int64_t global = 0, micro = 0, accumulation = 0;
  bool operator==(const Batch&) const = default;
};

// What keeps `batch` from being shared by `data` (>= 1) replicas. All three zero, or one below zero, is a fault, too.
std::vector<TopologyError> check_batch(const Batch& batch, int64_t data);
// The same for batch.eval, the samples of a pass of an evaluation over all replicas. 0: to be found, which is always possible.
std::vector<TopologyError> check_eval(int64_t eval, int64_t data);
// The batch with the missing numbers filled in. Global alone: one micro-batch. Micro alone: one micro-batch for each replica.
// Errors: PLAIT_ERR_CONFIG with the faults above.
Batch solve_batch(const Batch& batch, int64_t data);

// The rows of the global batch that replica `data` of `replicas` computes in micro-batch `micro`: each replica has one
// contiguous share, cut into micro-batches in order. A solved batch.
Range rows(const Batch& batch, int32_t replicas, int32_t data, int64_t micro);

}  // namespace plait::topology
