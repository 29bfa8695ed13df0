#include "plugins/data/split/parts.hpp"

#include <array>

#include <xxhash.h>

namespace plait::data::split {

Part part_of(const Shares& shares, std::span<const uint8_t> key) {
  const uint64_t hash = XXH3_64bits_withSeed(key.data(), key.size(), shares.seed);
  const double at = static_cast<double>(hash >> 11) * 0x1p-53;
  if (at < shares.validation) return Part::kValidation;
  return at < shares.validation + shares.test ? Part::kTest : Part::kTrain;
}

Part part_of(const Shares& shares, int64_t index) {
  std::array<uint8_t, 8> key{};  // little-endian on every machine
  for (size_t i = 0; i < key.size(); ++i)
    key[i] = static_cast<uint8_t>(static_cast<uint64_t>(index) >> (8 * i));
  return part_of(shares, std::span<const uint8_t>(key));
}

}  // namespace plait::data::split
