// Runs the blocks of a launch one after the other, the threads of a block as fibers.
#pragma once

#include <string>

#include "tests/cuda_emulator/interface.hpp"

namespace emulator {

struct Kernel {
  std::string name;
  uint64_t bytes;  // of the arguments
  unsigned most_threads;
  EmulatorThunk thunk;
  unsigned static_shared = 0;  // bytes, if a test says how many
};

struct Launch {
  const Kernel* kernel;
  const void* arguments;
  dim3 blocks, threads;
  unsigned dynamic_shared;
};

// Runs all blocks. Returns "" if every thread has ended, otherwise a text that names kernel, block,
// thread and what went wrong; the blocks behind are not run then. One launch at a time: the caller
// holds a lock.
//
// Threads run in the order of their index until they wait. With PLAIT_CUDA_EMULATOR_SEED=<n>, n >
// 0, the order of blocks and threads is another one for each n, so that a missing barrier shows
// that the usual order hides.
std::string run_blocks(const Launch& launch);

}  // namespace emulator
