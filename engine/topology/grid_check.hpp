// Is this grid possible? Every fault at once, each with the key to change and the nearest choice that works.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/topology/topology_error.hpp"

namespace plait::topology {

// GridSizes as a user wrote them, not yet checked.
struct GridSizes {
  int64_t pipeline = 1, data = 1, tensor = 1;
  bool operator==(const GridSizes&) const = default;
};

// All that a grid must agree with. A 0 says: not known, or does not matter.
struct GridRequest {
  GridSizes sizes;
  int64_t world = 0;         // ranks that were started
  int64_t layers = 0;        // that may become stages
  int64_t chunks = 1;        // stages on each rank
  int64_t global = 0;        // batch.global
  int64_t micro = 0;         // batch.micro
  int64_t accumulation = 0;  // batch.accumulation
  int64_t eval = 0;          // batch.eval
};

// Each size is 1 or more, and the product is within kMaxRanks.
std::vector<TopologyError> check_sizes(const GridSizes& sizes);
// The above, then: product = world, no stage without a layer, batches that divide.
std::vector<TopologyError> check_grid(const GridRequest& request);
// The sizes with product `world` nearest to the demanded ones that break no other rule: fewest keys changed; data is changed
// rather than pipeline, and pipeline rather than tensor; then the smallest factors. Nothing when there are none.
std::optional<GridSizes> nearest_sizes(const GridRequest& request);

// The divisor of n (>= 1) nearest to `wanted`; the smaller one of two. Beyond 2^40 only divisors up to 2^20, and what they leave
// of n, are looked at: enough for a hint.
int64_t nearest_divisor(int64_t n, int64_t wanted);

}  // namespace plait::topology
