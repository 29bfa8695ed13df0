// What the kernels of quantize and matmul_quantized take.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

constexpr int kQuantizedBlock = 256;

struct QuantizeArgs {
  AnyPointer x;
  uint8_t* q;
  float* scale;
  int64_t rows, columns, blocks;  // blocks of 32 columns
};

// y (m, n) = act(a w^T + bias), or c + a w^T, w = scale * (q - 128).
struct MatmulQuantizedArgs {
  AnyPointer a;
  const uint8_t* q;
  const float* scale;
  AnyPointer bias;  // null: none
  AnyPointer c;     // null: none; may be y
  AnyPointer y;
  int64_t m, n, k, blocks;
  uint32_t activation;  // support::Activation
  uint32_t reserved;
};

}  // namespace plait::cuda
