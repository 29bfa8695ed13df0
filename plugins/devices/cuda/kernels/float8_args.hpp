// What the kernels of greatest_magnitude, quantize_f8 and matmul_f8 take.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

constexpr unsigned kFloat8Threads = 256;  // of a block of any of these kernels
constexpr int kFloat8Tile = 32;           // rows and columns of a tile that is transposed

// most[r] = the greatest magnitude of row r, a block for each; or of each column, a thread for
// each, where block y takes rows [y * rows_of_block, ..) and writes row y of most.
struct MagnitudeArgs {
  const void* x;
  uint32_t* most;  // the bits of f32
  int64_t rows, columns, rows_of_block;
};

struct QuantizeF8Args {
  const void* x;
  const float* most;
  uint8_t* q;
  float* scale;
  int64_t rows, columns;
  int64_t each;    // 1: a scale for each row of q; 0: one for all
  int64_t scales;  // how many
  uint32_t dtype;  // of q
  uint32_t reserved;
};

// w[r, i] = scale * q[r, i] as bf16, which is exact.
struct WidenF8Args {
  const uint8_t* q;
  const float* scale;
  uint16_t* w;
  int64_t count, columns, each;
  uint32_t dtype;  // of q
  uint32_t reserved;
};

// y[i, j] = act(z scale_a scale_b + bias[j]), or c[i, j] + z scale_a scale_b, with z the product of
// rows of a and b, which lies there or is computed.
struct MatmulF8Args {
  const uint8_t *a, *b;  // of the plain kernel
  const float* z;        // of the epilogue
  const float *scale_a, *scale_b;
  AnyPointer bias;  // null: none
  AnyPointer c;     // null: none; may be y
  AnyPointer y;
  int64_t m, n, k;
  int64_t each_a, each_b;  // 1: a scale for each row of the operand; 0: one for all
  uint32_t type_a, type_b;
  uint32_t activation;  // support::Activation
  uint32_t scaled;      // of the epilogue: z has the scales already
};

}  // namespace plait::cuda
