// What a generated source needs of CUDA when the host's compiler reads it: included before it. Its
// one kernel becomes emulated_kernel. Few lines, since it is read once for each of them.
#pragma once

#define PLAIT_CUDA_EMULATED 1

#include "tests/cuda_emulator/interface.hpp"

#define threadIdx (emulator_state.thread)
#define blockIdx (emulator_state.block)
#define blockDim (emulator_state.threads)
#define gridDim (emulator_state.blocks)

struct EmulatedKernel {
  const char* name;
  uint64_t bytes;
  unsigned most_threads;
  EmulatorThunk thunk;
};

#define PLAIT_GLOBAL(name, Args, threads)                                                       \
  static void name(const Args& a);                                                              \
  extern "C" __attribute__((visibility("default"))) const EmulatedKernel emulated_kernel = {    \
      #name, sizeof(Args), threads, [](const void* a) { name(*static_cast<const Args*>(a)); }}; \
  static void name(const Args& a)
