// matmul_quantized where y has few rows, so that reading the weights takes the time; and the
// weights as floats, for products with many rows.
#include "plugins/devices/cuda/kernels/activation.cuh"
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/quantized_args.hpp"
#include "plugins/devices/cuda/kernels/quantized_fast_args.hpp"

namespace plait::cuda {
namespace {

constexpr int kQuantBlock = 32;  // columns of a scale
constexpr int kPerLane = 16;     // weights that a lane loads at once
constexpr int kStep = 32 * kPerLane, kVector = 4;
constexpr int kShared = 8192;  // elements of a in shared memory

struct RowsOfA {
  alignas(16) float x[kShared];
};

// Byte i of a word as q - 128: 2^23 + q is exact in f32.
__device__ __forceinline__ float weight(uint32_t word, int i) {
  return __uint_as_float(0x4b000000u | (word >> (8 * i) & 0xffu)) - 8388736.0f;
}

// Elements [first, first + kShared / M) of M rows of a. Lanes of a warp read 16 elements each, as
// four vectors: vector v of lane l of step s is at (s * 4 + v) * 32 + l, without bank conflicts.
template <class T, int M>
__device__ void load_rows(const MatmulQuantizedArgs& a, int64_t row, int64_t first, float* to) {
  constexpr int kVectors = kShared / M / kVector;
  for (int i = static_cast<int>(threadIdx.x); i < M * kVectors; i += kQuantizedBlock) {
    const int m = i / kVectors, at = i - m * kVectors;
    const int64_t k = first + at / 128 * kStep + at % 32 * kPerLane + at / 32 % 4 * kVector;
    float x[kVector] = {};
    if (row + m < a.m && k < a.k)
      load_pack<T, kVector>(static_cast<const T*>(a.a.data) + (row + m) * a.k + k, x);
    store_pack<float, kVector>(to + i * kVector, x);
  }
}

// sum += the products of 16 weights of each column with M rows; x: of this lane and step.
template <int M>
__device__ void add_products(const uint4 (&q)[kQuantizedColumns],
                             const float (&scale)[kQuantizedColumns], const float* x,
                             float (&sum)[M][kQuantizedColumns]) {
  float part[M][kQuantizedColumns] = {};
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    float w[kQuantizedColumns][kVector];
#pragma unroll
    for (int c = 0; c < kQuantizedColumns; ++c) {
      const uint32_t word = v == 0 ? q[c].x : v == 1 ? q[c].y : v == 2 ? q[c].z : q[c].w;
#pragma unroll
      for (int i = 0; i < kVector; ++i) w[c][i] = weight(word, i);
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
      float rows[kVector];
      load_pack<float, kVector>(x + m * (kShared / M) + v * 32 * kVector, rows);
#pragma unroll
      for (int c = 0; c < kQuantizedColumns; ++c)
#pragma unroll
        for (int i = 0; i < kVector; ++i) part[m][c] = fmaf(rows[i], w[c][i], part[m][c]);
    }
  }
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int c = 0; c < kQuantizedColumns; ++c) sum[m][c] = fmaf(scale[c], part[m][c], sum[m][c]);
}

// M rows of y, two columns for each warp.
template <class T, int M>
__device__ void few_rows(const MatmulQuantizedArgs& a) {
  __shared__ RowsOfA shared;
  float* rows = shared.x;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t row = static_cast<int64_t>(blockIdx.y) * M;
  const int64_t column =
      (static_cast<int64_t>(blockIdx.x) * kQuantizedWarps + threadIdx.x / 32) * kQuantizedColumns;
  const uint8_t* q[kQuantizedColumns];
  const float* scale[kQuantizedColumns];
#pragma unroll
  for (int c = 0; c < kQuantizedColumns; ++c) {
    const int64_t j = column + c < a.n ? column + c : a.n - 1;
    q[c] = a.q + j * a.k;
    scale[c] = a.scale + j * a.blocks;
  }
  float sum[M][kQuantizedColumns] = {};
  for (int64_t first = 0; first < a.k; first += kShared / M) {
    __syncthreads();
    load_rows<T, M>(a, row, first, rows);
    __syncthreads();
#pragma unroll 2
    for (int s = 0; s < kShared / M / kStep; ++s) {
      const int64_t k = first + s * kStep + lane * kPerLane;
      if (k >= a.k) break;
      uint4 weights[kQuantizedColumns];
      float scales[kQuantizedColumns];
#pragma unroll
      for (int c = 0; c < kQuantizedColumns; ++c) {
        weights[c] = *reinterpret_cast<const uint4*>(q[c] + k);
        scales[c] = scale[c][k / kQuantBlock];
      }
      add_products<M>(weights, scales, rows + (s * 128 + lane) * kVector, sum);
    }
  }
  // Lane m * columns + c has the sum of row m and column c.
  float own = 0;
#pragma unroll
  for (int i = 0; i < M * kQuantizedColumns; ++i) {
    const float all = over_warp<Sum>(sum[i / kQuantizedColumns][i % kQuantizedColumns]);
    if (lane == i) own = all;
  }
  const int64_t i = row + lane / kQuantizedColumns, j = column + lane % kQuantizedColumns;
  if (lane >= M * kQuantizedColumns || i >= a.m || j >= a.n) return;
  const int64_t e = i * a.n + j;
  const double start = a.c.data ? get(a.c, e) : a.bias.data ? get(a.bias, j) : 0;
  set(a.y, e, activate(a.activation, start + own));
}

// w = scale * (q - 128), N neighbouring elements of a row for each thread.
template <class T, int N>
__device__ void dequantize(const DequantizeArgs& a) {
  const int64_t e = thread_index() * N;
  if (e >= a.count) return;
  const int64_t row = e / a.columns;
  const Accumulate<T> scale = a.scale[row * a.blocks + (e - row * a.columns) / kQuantBlock];
  const Pack<uint8_t, N> q = *reinterpret_cast<const Pack<uint8_t, N>*>(a.q + e);
  Accumulate<T> w[N];
#pragma unroll
  for (int i = 0; i < N; ++i)
    w[i] = scale * static_cast<Accumulate<T>>(static_cast<int>(q.v[i]) - 128);
  store_pack<T, N>(static_cast<T*>(a.w) + e, w);
}

}  // namespace

#define QUANTIZED_KERNEL(T, name, M)                                                  \
  PLAIT_GLOBAL(matmul_quantized_##name##_##M, MatmulQuantizedArgs, kQuantizedBlock) { \
    few_rows<T, M>(a);                                                                \
  }
#define QUANTIZED_KERNELS(T, name) \
  QUANTIZED_KERNEL(T, name, 1)     \
  QUANTIZED_KERNEL(T, name, 2)     \
  QUANTIZED_KERNEL(T, name, 4)     \
  QUANTIZED_KERNEL(T, name, 8)

QUANTIZED_KERNELS(float, f32)
QUANTIZED_KERNELS(bf16, bf16)
QUANTIZED_KERNELS(f16, f16)

#define DEQUANTIZE_KERNELS(T, name)                                                         \
  PLAIT_GLOBAL(dequantize_##name, DequantizeArgs, kQuantizedBlock) { dequantize<T, 1>(a); } \
  PLAIT_GLOBAL(dequantize_wide_##name, DequantizeArgs, kQuantizedBlock) {                   \
    dequantize<T, sizeof(T) == 8 ? 2 : 4>(a);                                               \
  }

DEQUANTIZE_KERNELS(float, f32)
DEQUANTIZE_KERNELS(double, f64)
DEQUANTIZE_KERNELS(bf16, bf16)
DEQUANTIZE_KERNELS(f16, f16)

}  // namespace plait::cuda
