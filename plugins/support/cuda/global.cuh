// How a .cu file declares kernels. It is compiled by nvcc for the GPU and, for tests, by a host
// compiler behind an emulator (tests/cuda_emulator), which defines PLAIT_CUDA_EMULATED, this macro
// and the built-in functions and variables of CUDA.
#pragma once

#ifndef PLAIT_CUDA_EMULATED
// A kernel: PLAIT_GLOBAL(name, Args, 256) { ... a.field ... }, its one argument a struct.
#define PLAIT_GLOBAL(name, Args, threads) \
  extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ Args a)
#endif
