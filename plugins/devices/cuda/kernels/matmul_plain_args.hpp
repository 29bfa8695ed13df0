// What the kernels of matmul_plain take.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

constexpr int kMatmulPlainBlock = 256;

// y[b,m,n] = act(op(a)[b,m,k] op(b)[b,k,n] + bias[n]), or + c[b,m,n]; elements, not bytes. Element
// k of row i of op(a) is at i * a_row + k * a_col, element k of column j of op(b) at
// k * b_row + j * b_col.
struct MatmulPlainArgs {
  const void *a, *b;  // of one type
  AnyPointer bias;    // null: none
  AnyPointer c;       // null: none; may be y
  AnyPointer y;
  double* squares;  // null: not wanted; a sum for each block
  int64_t batch, m, n, k;
  int64_t a_batch, b_batch, a_row, a_col, b_row, b_col;
  uint32_t activation;  // support::Activation
  uint32_t reserved;
};

struct MatmulSquaresArgs {
  const double* squares;
  AnyPointer sum;
  int64_t count;
};

}  // namespace plait::cuda
