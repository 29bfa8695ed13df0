// Checks a grid. Every fault is reported at once, each with the key to change and the nearest valid
// choice.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/topology/topology_error.hpp"

namespace plait::topology {

// Sizes as the user gave them, unchecked.
struct GridSizes {
  int64_t pipeline = 1, data = 1, tensor = 1;
  bool operator==(const GridSizes&) const = default;
};

// All numbers with which a grid must be consistent. 0: unknown or irrelevant.
struct GridRequest {
  GridSizes sizes;
  int64_t world = 0;         // number of started ranks
  int64_t layers = 0;        // layers to be divided into stages
  int64_t chunks = 1;        // stages per rank
  int64_t global = 0;        // batch.global
  int64_t micro = 0;         // batch.micro
  int64_t accumulation = 0;  // batch.accumulation
  int64_t eval = 0;          // batch.eval
  bool derived = false;      // global follows from micro, accumulation and the number of replicas
};

// Checks that each size is at least 1 and the product at most kMaxRanks.
std::vector<TopologyError> check_sizes(const GridSizes& sizes);
// Checks the sizes, then: product = world, no stage without a layer, batches that divide.
std::vector<TopologyError> check_grid(const GridRequest& request);
// The valid sizes with product `world` nearest to the requested ones: fewest keys changed; data is
// changed in preference to pipeline, and pipeline to tensor; then the smallest factors. Nothing if
// there are none.
std::optional<GridSizes> nearest_sizes(const GridRequest& request);

// The divisor of n (>= 1) nearest to `wanted`; the smaller of two. Beyond 2^40 only divisors up to
// 2^20 and their cofactors are considered, which is enough for a hint.
int64_t nearest_divisor(int64_t n, int64_t wanted);

}  // namespace plait::topology
