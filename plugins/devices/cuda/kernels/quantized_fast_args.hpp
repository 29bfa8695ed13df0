// What the kernels of quantized_fast take, besides the arguments of quantized_args.hpp.
#pragma once

#include <cstdint>

namespace plait::cuda {

// Products with few rows: a warp has kQuantizedColumns columns of y, a block kQuantizedWarps warps.
constexpr int kQuantizedWarps = 8, kQuantizedColumns = 2;
constexpr int kQuantizedRows = 8;  // of y that a block computes, at most

struct DequantizeArgs {
  const uint8_t* q;
  const float* scale;
  void* w;
  int64_t count, columns, blocks;  // elements, columns of a row, scales of a row
};

}  // namespace plait::cuda
