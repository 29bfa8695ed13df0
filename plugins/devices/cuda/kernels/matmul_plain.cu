// matmul of every type and layout: a thread for each element of y, the sum over k in order, in
// double.
#include "plugins/devices/cuda/kernels/activation.cuh"
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/matmul_plain_args.hpp"

namespace plait::cuda {
namespace {

// Of the product of row i and column j of one batch, started from `sum`.
template <class T>
__device__ double product(const MatmulPlainArgs& a, int64_t batch, int64_t i, int64_t j,
                          double sum) {
  const T* x = static_cast<const T*>(a.a) + batch * a.a_batch + i * a.a_row;
  const T* w = static_cast<const T*>(a.b) + batch * a.b_batch + j * a.b_col;
  for (int64_t k = 0; k < a.k; ++k)
    sum = fma(static_cast<double>(load(x + k * a.a_col)),
              static_cast<double>(load(w + k * a.b_row)), sum);
  return sum;
}

template <class T>
__device__ void element_of_product(const MatmulPlainArgs& a) {
  const int64_t e = thread_index();
  double squared = 0;
  if (e < a.batch * a.m * a.n) {
    const int64_t row = e / a.n, j = e - row * a.n, batch = row / a.m, i = row - batch * a.m;
    const double start = a.c.data ? get(a.c, e) : a.bias.data ? get(a.bias, j) : 0;
    const double y = activate(a.activation, product<T>(a, batch, i, j, start));
    set(a.y, e, y);
    squared = y * y;
  }
  if (!a.squares) return;
  squared = over_block<Sum>(squared, 0.0);
  if (threadIdx.x == 0) a.squares[blockIdx.x] = squared;
}

}  // namespace

PLAIT_GLOBAL(matmul_plain_f32, MatmulPlainArgs, kMatmulPlainBlock) { element_of_product<float>(a); }
PLAIT_GLOBAL(matmul_plain_f64, MatmulPlainArgs, kMatmulPlainBlock) {
  element_of_product<double>(a);
}
PLAIT_GLOBAL(matmul_plain_bf16, MatmulPlainArgs, kMatmulPlainBlock) { element_of_product<bf16>(a); }
PLAIT_GLOBAL(matmul_plain_f16, MatmulPlainArgs, kMatmulPlainBlock) { element_of_product<f16>(a); }

// The sum over the blocks of the above, by one block.
PLAIT_GLOBAL(matmul_plain_squares, MatmulSquaresArgs, kMatmulPlainBlock) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < a.count; i += blockDim.x) sum += a.squares[i];
  sum = over_block<Sum>(sum, 0.0);
  if (threadIdx.x == 0) set(a.sum, 0, sum);
}

}  // namespace plait::cuda
