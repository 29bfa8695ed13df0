// What the kernels of quantize, and of what reads its results, take.
#pragma once

#include <cstdint>

#include "kit/quantized.hpp"
#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

constexpr int kQuantizedBlock = 256;

struct QuantizeArgs {
  AnyPointer x;
  uint8_t* q;
  float* scale;
  kit::QuantRow row;
  int64_t rows, blocks;  // blocks of a row
};

// y (m, n) = act(a b + bias), or c + a b, where b is the weights (k, n) or (n, k) transposed.
struct MatmulQuantizedArgs {
  AnyPointer a;
  const uint8_t* q;
  const float* scale;
  AnyPointer bias;  // null: none
  AnyPointer c;     // null: none; may be y
  AnyPointer y;
  kit::QuantRow row;
  int64_t m, n, k, blocks;
  uint32_t activation;  // support::Activation
  uint32_t transpose_b;
};

// y (count, columns): rows of the weights by their numbers; null: all rows in order.
struct RowsOfQuantizedArgs {
  const uint8_t* q;
  const float* scale;
  AnyPointer index;
  AnyPointer y;
  kit::QuantRow row;
  int64_t rows, count;
  int64_t first, total;  // as of gather
};

}  // namespace plait::cuda
