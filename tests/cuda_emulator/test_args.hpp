// Arguments of the kernels in test_kernels.cu.
#pragma once

#include <cstdint>

struct TestArgs {
  int64_t* out;
  int64_t n;
};
