// What kernels on tensor cores need of the instruction set (sm_80 and later): asynchronous copies
// to shared memory, loads of 8x8 matrices, products of 16x16 by 16x8, and fast functions. The
// second half defines the same for the emulator.
//
// Fragments, for lane 4g+t of a warp (PTX ISA, "Matrix Fragments for mma.m16n8k16"):
//   a (16x16): rows g, g+8, g, g+8; columns 2t, 2t, 2t+8, 2t+8 and the one behind each
//   b (16x8):  rows 2t, 2t+8 and the one behind each; column g
//   c (16x8):  rows g, g, g+8, g+8; columns 2t, 2t+1, 2t, 2t+1
#pragma once

#include "plugins/devices/cuda/kernels/device.cuh"

namespace plait::cuda {

// Two 16-bit floats in a word, the first in its low half.
template <class T>
__device__ __forceinline__ uint32_t pack_two(float first, float second);

// An address in shared memory. Offsets may be added, and bits inside an aligned row flipped.
using SharedAddress = uint32_t;

#ifndef PLAIT_CUDA_EMULATED

__device__ __forceinline__ SharedAddress shared_address(const void* p) {
  return static_cast<SharedAddress>(__cvta_generic_to_shared(p));
}

// Copies 16 or 4 bytes, aligned to as many; 0 where `valid` is false, and `from` is then not read.
// They are there after copy_wait() of this thread and a barrier.
__device__ __forceinline__ void copy_async16(SharedAddress to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copy_async4(SharedAddress to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 4 : 0)
               : "memory");
}
// Closes a group of copies.
__device__ __forceinline__ void copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most `kOpen` groups of this thread are not done.
template <int kOpen>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
}

// Four 8x8 matrices of 16-bit elements, with the rows of matrix i at the addresses of lanes 8i to
// 8i+7: lane 4g+t gets of each the elements (g, 2t) and (g, 2t+1), or, transposed, (2t, g) and
// (2t+1, g).
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&to)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// c += a b, products and sums in f32.
#define PLAIT_MULTIPLY(type)                                       \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type       \
      ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])             \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
template <class T>
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1);
template <>
__device__ __forceinline__ void multiply_add<bf16>(float (&c)[4], const uint32_t (&a)[4],
                                                   uint32_t b0, uint32_t b1) {
  PLAIT_MULTIPLY("bf16");
}
template <>
__device__ __forceinline__ void multiply_add<f16>(float (&c)[4], const uint32_t (&a)[4],
                                                  uint32_t b0, uint32_t b1) {
  PLAIT_MULTIPLY("f16");
}
#undef PLAIT_MULTIPLY

template <>
__device__ __forceinline__ uint32_t pack_two<bf16>(float first, float second) {
  uint32_t two;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(second), "f"(first));
  return two;
}
template <>
__device__ __forceinline__ uint32_t pack_two<f16>(float first, float second) {
  uint32_t two;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(second), "f"(first));
  return two;
}

// Within 2 ulp; results below 2^-126 are 0.
__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float fast_log2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#else  // PLAIT_CUDA_EMULATED

inline SharedAddress shared_address(const void* p) {
  return static_cast<SharedAddress>(static_cast<const unsigned char*>(p) -
                                    static_cast<unsigned char*>(emulator_state.dynamic_shared));
}
inline unsigned char* emulated_shared(SharedAddress at) {
  return static_cast<unsigned char*>(emulator_state.dynamic_shared) + at;
}

// Copies of the emulator are done when copy_wait() says so, and not before: until then the bytes
// are NaN as any float, so that a read that comes too early shows.
struct EmulatedCopies {
  struct Copy {
    unsigned char* to;
    unsigned char bytes[16];
    int size;
  };
  static constexpr int kMost = 256, kGroups = 8;
  Copy copies[kMost];
  int begun = 0, groups = 0, ends[kGroups];
};
inline EmulatedCopies& emulated_copies() {
  static EmulatedCopies of_thread[1024];
  return of_thread[threadIdx.x];
}
inline void emulated_copy(SharedAddress to, const void* from, bool valid, int size) {
  EmulatedCopies& x = emulated_copies();
  if (x.begun == EmulatedCopies::kMost) emulator_trap("too many asynchronous copies at once");
  EmulatedCopies::Copy& copy = x.copies[x.begun++];
  copy = {emulated_shared(to), {}, size};
  if (valid) __builtin_memcpy(copy.bytes, from, static_cast<size_t>(size));
  __builtin_memset(copy.to, 0xff, static_cast<size_t>(size));
}
inline void copy_async16(SharedAddress to, const void* from, bool valid) {
  emulated_copy(to, from, valid, 16);
}
inline void copy_async4(SharedAddress to, const void* from, bool valid) {
  emulated_copy(to, from, valid, 4);
}
inline void copy_commit() {
  EmulatedCopies& x = emulated_copies();
  if (x.groups == EmulatedCopies::kGroups) emulator_trap("too many groups of copies at once");
  x.ends[x.groups++] = x.begun;
}
template <int kOpen>
inline void copy_wait() {
  EmulatedCopies& x = emulated_copies();
  if (x.groups <= kOpen) return;
  const int done = x.groups - kOpen, end = x.ends[done - 1];
  for (int i = 0; i < end; ++i)
    __builtin_memcpy(x.copies[i].to, x.copies[i].bytes, static_cast<size_t>(x.copies[i].size));
  for (int i = end; i < x.begun; ++i) x.copies[i - end] = x.copies[i];
  for (int i = done; i < x.groups; ++i) x.ends[i - done] = x.ends[i] - end;
  x.begun -= end;
  x.groups -= done;
}

// What the lanes of a warp show one another; the elements of a and b in the order of their words.
struct EmulatedLane {
  SharedAddress row;
  float a[8], b[4];
};
inline EmulatedLane* emulated_warp() {
  static EmulatedLane lanes[32][32];
  return lanes[threadIdx.x / 32];
}

inline void emulated_matrices(uint32_t (&to)[4], SharedAddress row, bool transposed) {
  EmulatedLane* lanes = emulated_warp();
  const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  lanes[lane].row = row;
  __syncwarp();
  for (unsigned i = 0; i < 4; ++i) {
    uint16_t two[2];
    for (unsigned j = 0; j < 2; ++j) {
      const unsigned r = transposed ? 2 * t + j : g, c = transposed ? g : 2 * t + j;
      if (lanes[8 * i + r].row % 16 != 0) emulator_trap("ldmatrix: a row is not aligned to 16");
      __builtin_memcpy(&two[j], emulated_shared(lanes[8 * i + r].row + 2 * c), 2);
    }
    to[i] = two[0] | static_cast<uint32_t>(two[1]) << 16;
  }
  __syncwarp();
}
inline void load_matrices(uint32_t (&to)[4], SharedAddress row) {
  emulated_matrices(to, row, false);
}
inline void load_matrices_transposed(uint32_t (&to)[4], SharedAddress row) {
  emulated_matrices(to, row, true);
}

template <class T>
inline float emulated_half(uint32_t word, unsigned i) {
  const T half{static_cast<uint16_t>(word >> 16 * i)};
  return load(&half);
}
template <class T>
inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  EmulatedLane* lanes = emulated_warp();
  const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  for (unsigned i = 0; i < 8; ++i) lanes[lane].a[i] = emulated_half<T>(a[i / 2], i % 2);
  for (unsigned i = 0; i < 4; ++i) lanes[lane].b[i] = emulated_half<T>(i < 2 ? b0 : b1, i % 2);
  __syncwarp();
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned column = 2 * t + i % 2;
    float sum = 0;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned u = k % 8 / 2;  // the lane that has row k of b and column k of a
      sum += lanes[4 * g + u].a[k / 8 * 4 + i / 2 * 2 + k % 2] *
             lanes[4 * column + u].b[k / 8 * 2 + k % 2];
    }
    c[i] += sum;
  }
  __syncwarp();
}

template <>
inline uint32_t pack_two<bf16>(float first, float second) {
  return to_bf16(first) | static_cast<uint32_t>(to_bf16(second)) << 16;
}
template <>
inline uint32_t pack_two<f16>(float first, float second) {
  return to_f16(first) | static_cast<uint32_t>(to_f16(second)) << 16;
}

inline float fast_exp2(float x) { return exp2f(x); }
inline float fast_log2(float x) { return log2f(x); }
inline float fast_reciprocal(float x) { return 1 / x; }

#endif

}  // namespace plait::cuda
