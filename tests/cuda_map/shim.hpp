// What generated sources of maps need of CUDA when a host compiler reads them: included before
// them. A kernel NAME becomes the function NAME_run(arguments, blocks), which runs its threads in
// turn.
#pragma once

#define PLAIT_CUDA_EMULATED 1

namespace {
struct Place {
  unsigned x;
};
[[maybe_unused]] Place threadIdx, blockIdx, gridDim;
}  // namespace

#define PLAIT_GLOBAL(name, Args, threads)                              \
  static void name(const Args& a);                                     \
  extern "C" void name##_run(const void* arguments, unsigned blocks) { \
    gridDim.x = blocks;                                                \
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)            \
      for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)      \
        name(*static_cast<const Args*>(arguments));                    \
  }                                                                    \
  static void name(const Args& a)
