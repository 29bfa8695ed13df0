// What cuBLASLt does not do with a product: activations and types that it has no epilogue for, the
// bias in another type, and the sum of squares.
#include "plugins/devices/cuda/kernels/activation.cuh"
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/matmul_epilogue_args.hpp"

namespace plait::cuda {
namespace {

// A thread takes N neighbouring columns, whose biases it reads once, of every few rows. It computes
// in f64 if z or y is f64.
template <class Z, class Y, int N>
__device__ void epilogue(const MatmulEpilogueArgs& a) {
  using A = decltype(Accumulate<Z>{} + Accumulate<Y>{});
  const unsigned lane = threadIdx.x % a.lanes, rows_at_once = blockDim.x / a.lanes;
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * a.lanes + lane) * N;
  if (column >= a.columns) return;
  A bias[N];
#pragma unroll
  for (int i = 0; i < N; ++i)
    bias[i] = a.bias.data ? static_cast<A>(get(a.bias, column + i)) : A(0);
  const int64_t first = static_cast<int64_t>(blockIdx.y) * rows_at_once + threadIdx.x / a.lanes;
  for (int64_t r = first; r < a.rows; r += static_cast<int64_t>(gridDim.y) * rows_at_once) {
    const int64_t at = r * a.columns + column;
    Accumulate<Z> z[N] = {};
    Accumulate<Y> sum[N] = {}, y[N];
    if (a.z) load_pack<Z, N>(static_cast<const Z*>(a.z) + at, z);
    if (a.sum) load_pack<Y, N>(static_cast<const Y*>(a.sum) + at, sum);
#pragma unroll
    for (int i = 0; i < N; ++i)
      y[i] = static_cast<Accumulate<Y>>(
          activate<A>(a.activation, static_cast<A>(z[i]) + bias[i] + static_cast<A>(sum[i])));
    store_pack<Y, N>(static_cast<Y*>(a.y) + at, y);
  }
}

// A thread takes every so many packs of N elements, then of the elements behind the last pack.
template <class T, int N>
__device__ void squares(const MatmulPartsArgs& a) {
  const T* y = static_cast<const T*>(a.y);
  const int64_t packs = a.count / N;
  double sum = 0;
  for (int64_t p = thread_index(); p < packs; p += thread_count()) {
    Accumulate<T> v[N];
    load_pack<T, N>(y + p * N, v);
#pragma unroll
    for (int i = 0; i < N; ++i)
      sum = fma(static_cast<double>(v[i]), static_cast<double>(v[i]), sum);
  }
  for (int64_t i = packs * N + thread_index(); i < a.count; i += thread_count()) {
    const double v = load(y + i);
    sum = fma(v, v, sum);
  }
  sum = over_block<Sum>(sum, 0.0);
  if (threadIdx.x == 0) a.parts[blockIdx.x] = sum;
}

}  // namespace

// matmul_epilogue_<type of z>_<type of y>, and one of the same name and _1 for rows of any length.
#define PLAIT_MATMUL_EPILOGUE(z_name, y_name, Z, Y, N)                             \
  PLAIT_GLOBAL(matmul_epilogue_##z_name##_##y_name, MatmulEpilogueArgs, 256) {     \
    epilogue<Z, Y, N>(a);                                                          \
  }                                                                                \
  PLAIT_GLOBAL(matmul_epilogue_##z_name##_##y_name##_1, MatmulEpilogueArgs, 256) { \
    epilogue<Z, Y, 1>(a);                                                          \
  }
PLAIT_MATMUL_EPILOGUE(f32, f32, float, float, 4)
PLAIT_MATMUL_EPILOGUE(f32, bf16, float, bf16, 4)
PLAIT_MATMUL_EPILOGUE(f32, f16, float, f16, 4)
PLAIT_MATMUL_EPILOGUE(f32, f64, float, double, 2)
PLAIT_MATMUL_EPILOGUE(f64, f64, double, double, 2)
PLAIT_MATMUL_EPILOGUE(f64, f32, double, float, 2)
PLAIT_MATMUL_EPILOGUE(f64, bf16, double, bf16, 2)
PLAIT_MATMUL_EPILOGUE(f64, f16, double, f16, 2)
PLAIT_MATMUL_EPILOGUE(bf16, bf16, bf16, bf16, 4)
PLAIT_MATMUL_EPILOGUE(f16, f16, f16, f16, 4)

PLAIT_GLOBAL(matmul_bias, MatmulBiasArgs, 256) {
  for (int64_t i = thread_index(); i < a.count; i += thread_count()) set(a.to, i, get(a.bias, i));
}

PLAIT_GLOBAL(matmul_squares_f32, MatmulPartsArgs, 256) { squares<float, 4>(a); }
PLAIT_GLOBAL(matmul_squares_f64, MatmulPartsArgs, 256) { squares<double, 2>(a); }
PLAIT_GLOBAL(matmul_squares_bf16, MatmulPartsArgs, 256) { squares<bf16, 8>(a); }
PLAIT_GLOBAL(matmul_squares_f16, MatmulPartsArgs, 256) { squares<f16, 8>(a); }

// One block.
PLAIT_GLOBAL(matmul_squares_total, MatmulTotalArgs, 256) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < a.count; i += blockDim.x) sum += a.parts[i];
  sum = over_block<Sum>(sum, 0.0);
  if (threadIdx.x == 0) set(a.total, 0, sum);
}

}  // namespace plait::cuda
