// A weight of quantized rows; kit/quantized.hpp defines it.
#pragma once

#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/quantized_args.hpp"

namespace plait::cuda {

// An array of a function that is indexed would lie in local memory.
__constant__ const float kNf4Levels[16] = {
    kit::nf4_level(0),  kit::nf4_level(1),  kit::nf4_level(2),  kit::nf4_level(3),
    kit::nf4_level(4),  kit::nf4_level(5),  kit::nf4_level(6),  kit::nf4_level(7),
    kit::nf4_level(8),  kit::nf4_level(9),  kit::nf4_level(10), kit::nf4_level(11),
    kit::nf4_level(12), kit::nf4_level(13), kit::nf4_level(14), kit::nf4_level(15)};

// Exact. q, scale: of all rows.
__device__ __forceinline__ double quantized_weight(const kit::QuantRow& shape, const uint8_t* q,
                                                   const float* scale, int64_t row,
                                                   int64_t column) {
  q += row * shape.bytes();
  scale += row * shape.floats();
  const int64_t block = column / shape.block();
  if (!shape.nf4()) return static_cast<double>(scale[block]) * (static_cast<int>(q[column]) - 128);
  const float* pair = scale + 2 * (block / (kit::kNf4Group / kit::kNf4Block));
  const auto code = static_cast<float>(q[shape.number_bytes() + block]);
  return static_cast<double>(kNf4Levels[q[column / 2] >> (column % 2 * 4) & 15]) *
         fmaf(pair[1], code, pair[0]);
}

}  // namespace plait::cuda
