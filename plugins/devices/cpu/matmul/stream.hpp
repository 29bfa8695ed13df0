// Products of a few rows with a matrix of weights that is read once: what the kernels of the
// instruction sets have in common.
#pragma once

#include <cstdint>

#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {

constexpr int64_t kMostStreamRows = 8;
// Outputs of one call: a multiple of the outputs that any function takes at a time.
constexpr int64_t kStreamGroup = 12;

// sums[r * kStreamGroup + j] = the sum over k of rows[r,k] * weights[j,k]. Rows and weights lie k
// floats apart. The order of a sum follows from k and the number of rows alone.
struct DotCall {
  const void* weights = nullptr;
  const float* rows = nullptr;
  float* sums = nullptr;
  int64_t k = 0;
  int64_t outputs = 0;  // at most kStreamGroup
};
// Of a fixed number of rows. [thread: any] Does not allocate or throw.
using DotFunction = void (*)(const DotCall&);

// The function of one instruction set for 1 to kMostStreamRows rows, and weights of a type.
DotFunction dots_avx2(int64_t rows, Half weights);
DotFunction dots_avx512(int64_t rows, Half weights);

}  // namespace plait::cpu
