// What the kernels of row_sort take.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

// The sort by radix: a block counts and places kSortTile elements, by one of kSortDigits digits.
constexpr int kSortBlock = 256, kSortTile = 1024, kSortDigits = 256, kSortBits = 8;
constexpr int kOffsetsBlock = 1024;

// An element has a key, the row that it names, and a place, its number among the indices. An index
// outside of [first, first + rows) has the key `rows`.
struct RowSortArgs {
  AnyPointer index;      // of the first pass, which reads the indices
  const uint32_t* keys;  // of later passes; null in the first one
  const uint32_t* places;
  uint32_t *keys_out, *places_out;
  uint32_t* counts;  // (kSortDigits, blocks); then where the elements of each begin
  int64_t count;     // elements
  int64_t rows, first;
  int32_t shift;   // of the digit in a key
  int32_t blocks;  // that count and place
};

}  // namespace plait::cuda
