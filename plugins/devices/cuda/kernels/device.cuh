// What every .cu file includes first. The file is compiled by nvcc for the GPU and, for tests, by a
// host compiler behind an emulator (tests/cuda_emulator), which defines PLAIT_CUDA_EMULATED and the
// built-in functions and variables of CUDA.
#pragma once

#ifndef PLAIT_CUDA_EMULATED
#include <cuda_bf16.h>
#include <cuda_fp16.h>
// Dynamic shared memory, aligned to 256 bytes, as an array of T called `name`.
#define PLAIT_DYNAMIC_SHARED(T, name)                             \
  extern __shared__ __align__(256) unsigned char plait_dynamic[]; \
  T* const name = reinterpret_cast<T*>(plait_dynamic)
#endif

#include "kit/half.hpp"
#include "plugins/devices/cuda/kernels/element.hpp"
#include "plugins/support/cuda/global.cuh"

namespace plait::cuda {

// The 16-bit floats as bits: a type for templates.
struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

__device__ __forceinline__ float from_bf16(uint16_t bits) {
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}
// To nearest even.
__device__ __forceinline__ uint16_t to_bf16(float v) {
#ifdef PLAIT_CUDA_EMULATED
  return kit::to_bf16(v);
#else
  return __bfloat16_as_ushort(__float2bfloat16_rn(v));
#endif
}
__device__ __forceinline__ float from_f16(uint16_t bits) {
#ifdef PLAIT_CUDA_EMULATED
  return kit::from_f16(bits);
#else
  return __half2float(__ushort_as_half(bits));
#endif
}
__device__ __forceinline__ uint16_t to_f16(float v) {
#ifdef PLAIT_CUDA_EMULATED
  return kit::to_f16(v);
#else
  return __half_as_ushort(__float2half_rn(v));
#endif
}

// Element types of templates: float, double, bf16, f16. Accumulate<T> is the type to compute in.
__device__ __forceinline__ float load(const float* p) { return *p; }
__device__ __forceinline__ double load(const double* p) { return *p; }
__device__ __forceinline__ float load(const bf16* p) { return from_bf16(p->bits); }
__device__ __forceinline__ float load(const f16* p) { return from_f16(p->bits); }
__device__ __forceinline__ void store(float* p, float v) { *p = v; }
__device__ __forceinline__ void store(double* p, double v) { *p = v; }
__device__ __forceinline__ void store(bf16* p, float v) { p->bits = to_bf16(v); }
__device__ __forceinline__ void store(f16* p, float v) { p->bits = to_f16(v); }
template <class T>
struct AccumulateOf {
  using type = float;
};
template <>
struct AccumulateOf<double> {
  using type = double;
};
template <class T>
using Accumulate = typename AccumulateOf<T>::type;

// N elements that are loaded and stored at once: N * sizeof(T) is 4, 8 or 16 bytes, and the address
// is a multiple of that.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};
template <class T, int N>
__device__ __forceinline__ void load_pack(const T* from, Accumulate<T>* to) {
  const Pack<T, N> p = *reinterpret_cast<const Pack<T, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = load(&p.v[i]);
}
template <class T, int N>
__device__ __forceinline__ void store_pack(T* to, const Accumulate<T>* from) {
  Pack<T, N> p;
#pragma unroll
  for (int i = 0; i < N; ++i) store(&p.v[i], from[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = p;
}

// Elements of a type known at run time, as plugins/support/elements.hpp reads and writes them:
// 16-bit floats are rounded by way of f32; integers toward zero, saturated, NaN as 0; bool is value
// != 0.
__device__ __forceinline__ int64_t saturate(double v, double low, double high) {
  return v != v ? 0 : static_cast<int64_t>(v < low ? low : v > high ? high : v);
}
__device__ __forceinline__ double get(const AnyPointer& x, int64_t i) {
  switch (x.dtype) {
    case PLAIT_F32:
      return static_cast<const float*>(x.data)[i];
    case PLAIT_F64:
      return static_cast<const double*>(x.data)[i];
    case PLAIT_BF16:
      return from_bf16(static_cast<const uint16_t*>(x.data)[i]);
    case PLAIT_F16:
      return from_f16(static_cast<const uint16_t*>(x.data)[i]);
    case PLAIT_I32:
      return static_cast<const int32_t*>(x.data)[i];
    case PLAIT_I64:
      return static_cast<double>(static_cast<const int64_t*>(x.data)[i]);
    case PLAIT_U8:
      return static_cast<const uint8_t*>(x.data)[i];
    default:
      return static_cast<const uint8_t*>(x.data)[i] != 0 ? 1.0 : 0.0;
  }
}
__device__ __forceinline__ void set(const AnyPointer& x, int64_t i, double v) {
  switch (x.dtype) {
    case PLAIT_F32:
      static_cast<float*>(x.data)[i] = static_cast<float>(v);
      break;
    case PLAIT_F64:
      static_cast<double*>(x.data)[i] = v;
      break;
    case PLAIT_BF16:
      static_cast<uint16_t*>(x.data)[i] = to_bf16(static_cast<float>(v));
      break;
    case PLAIT_F16:
      static_cast<uint16_t*>(x.data)[i] = to_f16(static_cast<float>(v));
      break;
    case PLAIT_I32:
      static_cast<int32_t*>(x.data)[i] =
          static_cast<int32_t>(saturate(v, -2147483648.0, 2147483647.0));
      break;
    case PLAIT_I64:
      static_cast<int64_t*>(x.data)[i] =
          v >= 0x1p63 ? 0x7fffffffffffffff : saturate(v, -0x1p63, 0x1p63);
      break;
    case PLAIT_U8:
      static_cast<uint8_t*>(x.data)[i] = static_cast<uint8_t>(saturate(v, 0, 255));
      break;
    default:
      static_cast<uint8_t*>(x.data)[i] = v != 0 ? 1 : 0;
  }
}
// Of a tensor of indices (i32, i64, u8).
__device__ __forceinline__ int64_t get_index(const AnyPointer& x, int64_t i) {
  if (x.dtype == PLAIT_I64) return static_cast<const int64_t*>(x.data)[i];
  if (x.dtype == PLAIT_I32) return static_cast<const int32_t*>(x.data)[i];
  return static_cast<const uint8_t*>(x.data)[i];
}

// The index of this thread among all of a one-dimensional grid, and their number.
__device__ __forceinline__ int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64_t thread_count() {
  return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

constexpr double kInfinity = __builtin_huge_val(), kNan = __builtin_nan("");

constexpr unsigned kWholeWarp = 0xffffffffu;

// NaN passes, as in map.h.
template <class A>
__device__ __forceinline__ A max_nan(A a, A b) {
  return a != a ? a : b != b ? b : a > b ? a : b;
}
struct Sum {
  template <class A>
  static __device__ __forceinline__ A join(A a, A b) {
    return a + b;
  }
};
struct Max {
  template <class A>
  static __device__ __forceinline__ A join(A a, A b) {
    return max_nan(a, b);
  }
};

// All 32 lanes of a warp combined, in a fixed order; every lane gets the result.
template <class Op, class A>
__device__ __forceinline__ A over_warp(A v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v = Op::join(v, __shfl_xor_sync(kWholeWarp, v, step));
  return v;
}

// All threads of a block combined, in a fixed order; every thread gets the result. The block has at
// most 1024 threads, a multiple of 32; start: what changes nothing (0 of Sum, -infinity of Max).
// Every thread of the block calls it.
template <class Op, class A>
__device__ __forceinline__ A over_block(A v, A start) {
  __shared__ A of_warp[32];
  v = over_warp<Op>(v);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  __syncthreads();  // a call before this one may still read
  if (lane == 0) of_warp[warp] = v;
  __syncthreads();
  return over_warp<Op>(lane < warps ? of_warp[lane] : start);
}

}  // namespace plait::cuda
