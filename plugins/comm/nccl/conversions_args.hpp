// The arguments of the kernels of conversions.cu.
#pragma once

#include <cstdint>

namespace plait::comm_nccl {

struct ConversionArgs {
  const void* from;
  void* to;
  int64_t n;
};

struct CountArgs {
  uint32_t* count;
};

}  // namespace plait::comm_nccl
