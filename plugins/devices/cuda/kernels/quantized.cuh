// A weight of quantized rows; kit/quantized.hpp defines it.
#pragma once

#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/quantized_args.hpp"

namespace plait::cuda {

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
  return static_cast<double>(kit::nf4_level(q[column / 2] >> (column % 2 * 4) & 15)) *
         fmaf(pair[1], code, pair[0]);
}

}  // namespace plait::cuda
