// Codes of element types, and what host and device code both know of them.
#pragma once

#include <plait/tensor.h>

#include <cstdint>

namespace plait::cuda {

// One operand as the plain kernels see it: elements of a type known at run time.
struct AnyPointer {
  void* data;
  uint32_t dtype;  // PLAIT_F32, ...
  uint32_t reserved;
};

}  // namespace plait::cuda
