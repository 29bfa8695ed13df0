// What the kernels around a product of cuBLASLt take.
#pragma once

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

constexpr unsigned kMatmulThreads = 256;  // of a block of any of these kernels

// y[r,c] = activation(z[r,c] + bias[c]) or z[r,c] + sum[r,c], rounded once. z and y may be the same
// memory, and sum and y.
struct MatmulEpilogueArgs {
  const void* z;    // the product; null: zeros
  const void* sum;  // of y's type; null: nothing is added
  void* y;
  AnyPointer bias;      // its data is null: nothing is added
  int64_t rows;         // of all matrices of a batch
  int64_t columns;      // a multiple of the elements that a thread takes at once
  uint32_t lanes;       // threads of a block that share a row, a power of 2
  uint32_t activation;  // a support::Activation
};

// to[i] = bias[i], in the type that a product adds.
struct MatmulBiasArgs {
  AnyPointer bias, to;
  int64_t count;
};

// The sum of the squares of y: one part of each block, in f64; then the sum of the parts in their
// order.
struct MatmulPartsArgs {
  const void* y;
  int64_t count;
  double* parts;  // (blocks)
};
struct MatmulTotalArgs {
  const double* parts;
  int64_t count;
  AnyPointer total;
};

}  // namespace plait::cuda
