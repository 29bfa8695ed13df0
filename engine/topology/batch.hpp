// How a global batch is divided: global = micro * accumulation * data, where any two of the first
// three determine the third.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/topology/extent_split.hpp"
#include "engine/topology/topology_error.hpp"

namespace plait::topology {

// Samples of a step, samples of a micro-batch, micro-batches of a step on each rank. 0: to be
// derived.
struct BatchSizes {
  int64_t global = 0, micro = 0, accumulation = 0;
  bool operator==(const BatchSizes&) const = default;
};

// The reasons why `batch` cannot be divided between `data` (>= 1) replicas. All three zero, or one
// below zero, is a fault, too.
std::vector<TopologyError> check_batch(const BatchSizes& batch, int64_t data);
// The same for batch.eval, the samples of one evaluation batch over all replicas. 0: to be derived,
// which is always possible.
std::vector<TopologyError> check_eval(int64_t eval, int64_t data);
// The batch with the missing numbers filled in. Only global given: one micro-batch. Only micro
// given: one micro-batch per replica.
// Errors: PLAIT_ERR_CONFIG with the faults above.
BatchSizes solve_batch(const BatchSizes& batch, int64_t data);

// The rows of the global batch that replica `data` of `replicas` computes in micro-batch `micro`:
// each replica has one contiguous shard, divided into micro-batches in order. For a solved batch.
Range rows(const BatchSizes& batch, int32_t replicas, int32_t data, int64_t micro);

}  // namespace plait::topology
