// Tiles of f32 in shared memory for attention without tensor cores. 256 threads are 16 rows `ty` of
// 16 threads `tx`; a thread computes rows ty, ty + 16, ... of a product.
#pragma once

#include "plugins/devices/cuda/kernels/attention_tile.cuh"

namespace plait::cuda {

template <int kWidth>
constexpr int kF32Stride = f32_stride(kWidth);

// Copies kRows rows of `width` elements, `distance` apart; rows from `rows` on and columns from
// `width` on become 0.
template <int D, int kRows>
__device__ __forceinline__ void copy_f32(float* to, const float* from, int64_t distance, int rows,
                                         int width) {
  const int column = static_cast<int>(threadIdx.x) % D;
  for (int row = static_cast<int>(threadIdx.x) / D; row < kRows; row += kF32Threads / D)
    to[row * kF32Stride<D> + column] =
        row < rows && column < width ? from[row * distance + column] : 0;
}

__device__ __forceinline__ float4 four_at(const float* p) {
  return *reinterpret_cast<const float4*>(p);
}
__device__ __forceinline__ void add_four(float (&to)[4], float factor, const float4& x) {
  to[0] = fmaf(factor, x.x, to[0]);
  to[1] = fmaf(factor, x.y, to[1]);
  to[2] = fmaf(factor, x.z, to[2]);
  to[3] = fmaf(factor, x.w, to[3]);
}

// c = a b^T: elements (ty + 16i, tx + 16j), of tiles a and b with rows of D.
template <int D, int I, int J>
__device__ __forceinline__ void multiply_rows_f32(float (&c)[I][J], const float* a,
                                                  const float* b) {
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
#pragma unroll
  for (int i = 0; i < I; ++i)
#pragma unroll
    for (int j = 0; j < J; ++j) c[i][j] = 0;
#pragma unroll 4
  for (int k = 0; k < D; k += 4) {
    float4 left[I], right[J];
#pragma unroll
    for (int i = 0; i < I; ++i) left[i] = four_at(a + (ty + 16 * i) * kF32Stride<D> + k);
#pragma unroll
    for (int j = 0; j < J; ++j) right[j] = four_at(b + (tx + 16 * j) * kF32Stride<D> + k);
#pragma unroll
    for (int i = 0; i < I; ++i)
#pragma unroll
      for (int j = 0; j < J; ++j) {
        c[i][j] = fmaf(left[i].x, right[j].x, c[i][j]);
        c[i][j] = fmaf(left[i].y, right[j].y, c[i][j]);
        c[i][j] = fmaf(left[i].z, right[j].z, c[i][j]);
        c[i][j] = fmaf(left[i].w, right[j].w, c[i][j]);
      }
  }
}

// c += p b: elements (ty + 16i, 64n + 4tx + 0..3), of a tile p with rows of K and a tile b with K
// rows of D.
template <int D, int K, int I>
__device__ __forceinline__ void multiply_columns_f32(float (&c)[I][D / 64][4], const float* p,
                                                     const float* b) {
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
#pragma unroll 2
  for (int k = 0; k < K; k += 4) {
    float4 left[I];
#pragma unroll
    for (int i = 0; i < I; ++i) left[i] = four_at(p + (ty + 16 * i) * kF32Stride<K> + k);
#pragma unroll
    for (int n = 0; n < D / 64; ++n) {
      const float* const row = b + k * kF32Stride<D> + 64 * n + 4 * tx;
      const float4 right[4] = {four_at(row), four_at(row + kF32Stride<D>),
                               four_at(row + 2 * kF32Stride<D>), four_at(row + 3 * kF32Stride<D>)};
#pragma unroll
      for (int i = 0; i < I; ++i) {
        add_four(c[i][n], left[i].x, right[0]);
        add_four(c[i][n], left[i].y, right[1]);
        add_four(c[i][n], left[i].z, right[2]);
        add_four(c[i][n], left[i].w, right[3]);
      }
    }
  }
}

// Elements (ty + 16i, tx + 16j) into a tile with rows of K.
template <int K, int I, int J>
__device__ __forceinline__ void put_f32(const float (&c)[I][J], float* to) {
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
#pragma unroll
  for (int i = 0; i < I; ++i)
#pragma unroll
    for (int j = 0; j < J; ++j) to[(ty + 16 * i) * kF32Stride<K> + tx + 16 * j] = c[i][j];
}

// Writes what multiply_columns_f32() gives, times the factor of each row.
template <int D, int I>
__device__ __forceinline__ void write_rows_f32(const float (&c)[I][D / 64][4],
                                               const float (&factor)[I], float* to,
                                               int64_t distance, int rows, int width) {
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
#pragma unroll
  for (int i = 0; i < I; ++i)
#pragma unroll
    for (int n = 0; n < D / 64; ++n)
#pragma unroll
      for (int m = 0; m < 4; ++m)
        if (ty + 16 * i < rows && 64 * n + 4 * tx + m < width)
          to[(ty + 16 * i) * distance + 64 * n + 4 * tx + m] = c[i][n][m] * factor[i];
}

}  // namespace plait::cuda
