// The greatest of some numbers and the sum of exp(number - greatest), found in one pass. NaN, and
// infinity among them, make the sum NaN; so the greatest need not be.
#pragma once

#include "plugins/devices/cuda/kernels/row_groups.cuh"

namespace plait::cuda {

// exp(x) of x <= 0, to 3e-7 of 1, and with fewer instructions than expf(): sums of long rows are
// limited by them otherwise.
__device__ __forceinline__ float power(float x) {
  constexpr float kLog2E = 1.44269504f;
#ifdef PLAIT_CUDA_EMULATED
  return exp2f(x * kLog2E);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * kLog2E));
  return y;
#endif
}

struct LogSum {
  float most = -INFINITY, sum = 0;

  template <int kCount>
  __device__ __forceinline__ void add(const float (&v)[kCount]) {
    float greatest = most;
#pragma unroll
    for (int j = 0; j < kCount; ++j) greatest = fmaxf(greatest, v[j]);
    const float shift = origin(greatest);
    float more = 0;
#pragma unroll
    for (int j = 0; j < kCount; ++j) more += power(v[j] - shift);
    sum = sum * power(most - shift) + more;
    most = greatest;
  }
  // While all numbers are -infinity, which differ from it by NaN, the sum of their powers is 0.
  static __device__ __forceinline__ float origin(float greatest) {
    return greatest == -INFINITY ? 0.0f : greatest;
  }
};

// Of all threads of a group.
template <class Group>
__device__ __forceinline__ LogSum over_group(LogSum s) {
  LogSum all;
  all.most = Group::greatest(s.most);
  all.sum = Group::sum(s.sum * power(s.most - LogSum::origin(all.most)));
  return all;
}

}  // namespace plait::cuda
