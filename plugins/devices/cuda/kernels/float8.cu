// Numbers of 8 bits for products, and what a product of cuBLASLt leaves to do; kit/float8.hpp
// defines the bits.
#include "kit/float8.hpp"

#include "plugins/devices/cuda/kernels/activation.cuh"
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/float8_args.hpp"

namespace plait::cuda {
namespace {

struct Greater {
  static __device__ __forceinline__ uint32_t join(uint32_t a, uint32_t b) { return a > b ? a : b; }
};

// Whatever is not finite counts as infinite. f64 by way of f32, as everywhere.
__device__ __forceinline__ uint32_t magnitude(float v) {
  const uint32_t bits = __float_as_uint(v) & 0x7fffffffu;
  return bits > 0x7f800000u ? 0x7f800000u : bits;
}

template <class T>
__device__ void magnitude_rows(const MagnitudeArgs& a) {
  const int64_t row = blockIdx.x;
  const T* x = static_cast<const T*>(a.x) + row * a.columns;
  uint32_t most = 0;
  for (int64_t c = threadIdx.x; c < a.columns; c += kFloat8Threads)
    most = Greater::join(most, magnitude(static_cast<float>(load(x + c))));
  most = over_block<Greater>(most, 0u);
  if (threadIdx.x == 0) a.most[row] = most;
}

template <class T>
__device__ void magnitude_columns(const MagnitudeArgs& a) {
  const int64_t column = thread_index();
  if (column >= a.columns) return;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * a.rows_of_block;
  const int64_t end = first + a.rows_of_block < a.rows ? first + a.rows_of_block : a.rows;
  const T* x = static_cast<const T*>(a.x) + column;
  uint32_t most = 0;
  for (int64_t r = first; r < end; ++r)
    most = Greater::join(most, magnitude(static_cast<float>(load(x + r * a.columns))));
  a.most[blockIdx.y * a.columns + column] = most;
}

__device__ __forceinline__ float scale_of(uint32_t dtype, float most) {
  return dtype == PLAIT_F8E5M2 ? kit::f8_scale<kit::E5m2>(most) : kit::f8_scale<kit::E4m3>(most);
}
__device__ __forceinline__ uint8_t quantized(uint32_t dtype, float v, float inverse) {
  if (inverse == 0) return 0;
  v *= inverse;
  return dtype == PLAIT_F8E5M2 ? kit::to_f8<kit::E5m2>(v) : kit::to_f8<kit::E4m3>(v);
}
__device__ __forceinline__ float widened(uint32_t dtype, uint8_t q) {
  return dtype == PLAIT_F8E5M2 ? kit::from_f8<kit::E5m2>(q) : kit::from_f8<kit::E4m3>(q);
}

// N neighbouring elements of a row for each thread.
template <class T, int N>
__device__ void quantize_rows(const QuantizeF8Args& a) {
  const int64_t e = thread_index() * N;
  if (e >= a.rows * a.columns) return;
  const float inverse =
      kit::f8_inverse(scale_of(a.dtype, a.most[a.each ? e / a.columns : int64_t{0}]));
  Accumulate<T> x[N];
  load_pack<T, N>(static_cast<const T*>(a.x) + e, x);
  Pack<uint8_t, N> q;
#pragma unroll
  for (int i = 0; i < N; ++i) q.v[i] = quantized(a.dtype, static_cast<float>(x[i]), inverse);
  *reinterpret_cast<Pack<uint8_t, N>*>(a.q + e) = q;
}

// A tile of x for each block, read along its rows and written along its columns.
template <class T>
__device__ void quantize_columns(const QuantizeF8Args& a) {
  __shared__ uint8_t tile[kFloat8Tile][kFloat8Tile + 4];
  const int lane = static_cast<int>(threadIdx.x % kFloat8Tile);
  const int first = static_cast<int>(threadIdx.x / kFloat8Tile);
  constexpr int kStep = static_cast<int>(kFloat8Threads) / kFloat8Tile;
  const int64_t row = static_cast<int64_t>(blockIdx.y) * kFloat8Tile;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kFloat8Tile;
  if (column + lane < a.columns) {
    const float inverse =
        kit::f8_inverse(scale_of(a.dtype, a.most[a.each ? column + lane : int64_t{0}]));
    const T* x = static_cast<const T*>(a.x) + row * a.columns + column + lane;
    for (int r = first; r < kFloat8Tile && row + r < a.rows; r += kStep)
      tile[r][lane] = quantized(a.dtype, static_cast<float>(load(x + r * a.columns)), inverse);
  }
  __syncthreads();
  if (row + lane < a.rows)
    for (int c = first; c < kFloat8Tile && column + c < a.columns; c += kStep)
      a.q[(column + c) * a.rows + row + lane] = tile[lane][c];
}

// The scales and the rest of y, in double: a.z is a number of the sum in f32 or finer.
__device__ __forceinline__ void finish(const MatmulF8Args& a, int64_t e, double z, bool scaled) {
  const int64_t i = e / a.n, j = e - i * a.n;
  if (!scaled) z *= static_cast<double>(a.scale_a[i * a.each_a]) * a.scale_b[j * a.each_b];
  if (a.c.data) z += get(a.c, e);
  if (a.bias.data) z += get(a.bias, j);
  set(a.y, e, activate(a.activation, z));
}

}  // namespace

#define PLAIT_FLOAT8_KERNELS(name, T, N)                                                  \
  PLAIT_GLOBAL(magnitude_rows_##name, MagnitudeArgs, 256) { magnitude_rows<T>(a); }       \
  PLAIT_GLOBAL(magnitude_columns_##name, MagnitudeArgs, 256) { magnitude_columns<T>(a); } \
  PLAIT_GLOBAL(quantize_rows_##name, QuantizeF8Args, 256) { quantize_rows<T, N>(a); }     \
  PLAIT_GLOBAL(quantize_rows_##name##_1, QuantizeF8Args, 256) { quantize_rows<T, 1>(a); } \
  PLAIT_GLOBAL(quantize_columns_##name, QuantizeF8Args, 256) { quantize_columns<T>(a); }

PLAIT_FLOAT8_KERNELS(f32, float, 4)
PLAIT_FLOAT8_KERNELS(f64, double, 2)
PLAIT_FLOAT8_KERNELS(bf16, bf16, 4)
PLAIT_FLOAT8_KERNELS(f16, f16, 4)

PLAIT_GLOBAL(float8_scales, QuantizeF8Args, 256) {
  const int64_t i = thread_index();
  if (i < a.scales) a.scale[i] = scale_of(a.dtype, a.most[i]);
}

PLAIT_GLOBAL(widen_f8, WidenF8Args, 256) {
  const int64_t e = thread_index();
  if (e >= a.count) return;
  a.w[e] = to_bf16(a.scale[e / a.columns * a.each] * widened(a.dtype, a.q[e]));
}

// A thread for each element, in double.
PLAIT_GLOBAL(matmul_f8_plain, MatmulF8Args, 256) {
  const int64_t e = thread_index();
  if (e >= a.m * a.n) return;
  const int64_t i = e / a.n, j = e - i * a.n;
  const uint8_t *row = a.a + i * a.k, *column = a.b + j * a.k;
  double sum = 0;
  for (int64_t k = 0; k < a.k; ++k)
    sum += static_cast<double>(widened(a.type_a, row[k])) * widened(a.type_b, column[k]);
  finish(a, e, sum, false);
}

// In f32, of a product in f32.
PLAIT_GLOBAL(matmul_f8_epilogue, MatmulF8Args, 256) {
  for (int64_t e = thread_index(); e < a.m * a.n; e += thread_count()) {
    const int64_t i = e / a.n, j = e - i * a.n;
    float z = a.z[e];
    if (!a.scaled) z = z * a.scale_a[i * a.each_a] * a.scale_b[j * a.each_b];
    if (a.c.data) z += static_cast<float>(get(a.c, e));
    if (a.bias.data) z += static_cast<float>(get(a.bias, j));
    set(a.y, e, activate(a.activation, z));
  }
}

}  // namespace plait::cuda
