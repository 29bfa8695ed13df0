// What the kernels of scatter_add take.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

// The sort by radix: a block counts and places kSortTile elements, by one of kSortDigits digits.
constexpr int kSortBlock = 256, kSortTile = 1024, kSortDigits = 256, kSortBits = 8;
constexpr int kOffsetsBlock = 1024;

// An element has a key, the row of the table, and a place, its number among the indices. A row that
// is not of this table has the key `rows`.
struct ScatterSortArgs {
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

// Sorted elements that a block adds up.
constexpr int kScatterChunk = 32;

struct ScatterSumArgs {
  const uint32_t *keys, *places;  // sorted by key, then place
  const void* dy;
  void* y;
  void* partial;  // (chunks, 2, width): sums of rows whose elements other chunks have, too
  int64_t count, rows, width;
  int32_t accumulate;  // y has numbers to which the sums are added
  int32_t reserved;
};

}  // namespace plait::cuda
