// The part that all generated sources have in common.
#pragma once

namespace plait::cuda::map {

// Needs `real` (float or double), WIDE (1: double) and WIDTH, the elements of a vector. A C++20
// compiler makes the same of it for the host where PLAIT_CUDA_EMULATED, PLAIT_GLOBAL and the
// built-in variables of CUDA are defined (tests/cuda_emulator).
extern const char* const kPrelude;

}  // namespace plait::cuda::map
