// Which part of a split a sample belongs to. Pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace plait::data::split {

enum class Part : uint8_t { kTrain, kValidation, kTest };

// A sample belongs to validation if the hash of its key, as a number from 0 to 1, is below that
// share, to test if it is below the sum of both, else to train. So it is in one part whatever other
// samples there are, and a part keeps its samples when its share grows. The hash is XXH3 of the
// bytes and the seed, the same on every machine.
struct Shares {
  double validation = 0, test = 0;  // train: the rest
  uint64_t seed = 0;
};
Part part_of(const Shares& shares, std::span<const uint8_t> key);
Part part_of(const Shares& shares, int64_t index);

}  // namespace plait::data::split
