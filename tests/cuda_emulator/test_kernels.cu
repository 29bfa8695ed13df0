// Kernels that do right, and kernels with the faults that the emulator finds.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "tests/cuda_emulator/test_args.hpp"

// Every thread writes its own index.
PLAIT_GLOBAL(test_index, TestArgs, 256) {
  const int64_t i = plait::cuda::thread_index();
  if (i < a.n) a.out[i] = i + 1000 * gridDim.x;
}

// Turns the order of a block's elements around, by way of shared memory.
PLAIT_GLOBAL(test_reverse, TestArgs, 256) {
  __shared__ int64_t all[256];
  PLAIT_DYNAMIC_SHARED(int64_t, more);
  all[threadIdx.x] = threadIdx.x;
  more[threadIdx.x] = 1000;
  __syncthreads();
  const unsigned other = blockDim.x - 1 - threadIdx.x;
  a.out[blockIdx.x * blockDim.x + threadIdx.x] = all[other] + more[other];
}

// The same without its barrier.
PLAIT_GLOBAL(test_race, TestArgs, 256) {
  __shared__ int64_t all[256];
  all[threadIdx.x] = -1;
  __syncthreads();
  all[threadIdx.x] = threadIdx.x;
  a.out[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
}

// Sums of a block and of a warp, and every kind of collective.
PLAIT_GLOBAL(test_sums, TestArgs, 1024) {
  const int64_t sum = plait::cuda::over_block<plait::cuda::Sum>(int64_t{threadIdx.x}, int64_t{0});
  const unsigned lane = threadIdx.x % 32;
  int64_t v = sum % 89;  // what follows has 17 digits
  v = v * 100 + __shfl_sync(~0u, lane, 5);
  v = v * 100 + __shfl_sync(~0u, lane, 1, 8);
  v = v * 100 + __shfl_up_sync(~0u, lane, 3);
  v = v * 100 + __shfl_down_sync(~0u, lane, 4);
  v = v * 100 + __shfl_down_sync(~0u, lane, 3, 4);
  v = v * 100 + __popc(__ballot_sync(~0u, lane % 3 == 0));
  v = v * 10 + __any_sync(~0u, lane == 7) + __all_sync(~0u, lane < 31);
  if (lane < 8) v += __shfl_xor_sync(0xffu, lane, 1);  // eight lanes alone
  v = v * 10000 + __syncthreads_count(lane == 0);
  a.out[threadIdx.x] = v;
}

// Threads count in device memory.
PLAIT_GLOBAL(test_count, TestArgs, 64) {
  atomicAdd(reinterpret_cast<unsigned long long*>(a.out), 1ull);
}

PLAIT_GLOBAL(test_leaves_early, TestArgs, 64) {
  if (threadIdx.x == 33) return;
  __syncthreads();
}
PLAIT_GLOBAL(test_lane_missing, TestArgs, 64) {
  if (threadIdx.x != 40) __syncwarp();
}
PLAIT_GLOBAL(test_lanes_disagree, TestArgs, 64) { __syncwarp(threadIdx.x == 3 ? 0xffu : ~0u); }
PLAIT_GLOBAL(test_reads_unnamed, TestArgs, 64) {
  if (threadIdx.x < 4) a.out[threadIdx.x] = __shfl_sync(0xfu, threadIdx.x, 9);
}
PLAIT_GLOBAL(test_traps, TestArgs, 64) {
  if (threadIdx.x == 2 && blockIdx.x == 1) __trap();
}
PLAIT_GLOBAL(test_writes_behind, TestArgs, 64) {
  if (threadIdx.x == 0) reinterpret_cast<char*>(a.out)[a.n] = 0;
}

// Accesses outside, which the address sanitizer finds: by the last thread of the last block.
namespace {
bool is_last() { return blockIdx.x == gridDim.x - 1 && threadIdx.x == blockDim.x - 1; }
}  // namespace
PLAIT_GLOBAL(test_reads_behind, TestArgs, 64) {
  if (is_last()) a.out[0] = reinterpret_cast<const char*>(a.out)[a.n];
}
PLAIT_GLOBAL(test_reads_in_front, TestArgs, 64) {
  if (is_last()) a.out[0] = a.out[-a.n];
}
PLAIT_GLOBAL(test_reads_behind_dynamic, TestArgs, 64) {
  PLAIT_DYNAMIC_SHARED(char, shared);
  shared[threadIdx.x] = 1;
  __syncthreads();
  if (is_last()) a.out[0] = shared[a.n];
}
PLAIT_GLOBAL(test_reads_in_front_of_dynamic, TestArgs, 64) {
  PLAIT_DYNAMIC_SHARED(char, shared);
  if (is_last()) a.out[0] = shared[-a.n];
}
PLAIT_GLOBAL(test_writes_behind_static, TestArgs, 64) {
  __shared__ int shared[64];
  int* const p = shared;
  p[threadIdx.x] = 1;
  __syncthreads();
  if (is_last()) p[a.n] = 2;
  __syncthreads();
  a.out[threadIdx.x] = p[threadIdx.x];
}
// On the stack of a fiber, which has been left and entered again.
PLAIT_GLOBAL(test_writes_behind_local, TestArgs, 64) {
  int local[8];
  int* volatile const p = local;
  for (int i = 0; i < 8; ++i) p[i] = i;
  __syncthreads();
  if (is_last()) p[a.n] = 2;
  __syncthreads();
  a.out[threadIdx.x] = p[threadIdx.x % 8];
}
