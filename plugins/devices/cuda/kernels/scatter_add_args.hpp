// What the kernels of scatter_add take.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

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
