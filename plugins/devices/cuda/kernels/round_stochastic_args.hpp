// What the kernels of round_stochastic receive.
#pragma once

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

// Element i of x is element e of its tensor: e = first + begin + i, or where `run` is not 0 a
// number of runs of that length, `stride` apart (kit/ops/round_stochastic.hpp).
struct RoundStochasticArgs {
  const float* x;
  AnyPointer step;
  uint16_t* y;
  int64_t n, first, run, stride, begin;
  uint64_t seed;
  uint32_t stream;  // a stream_word()
};

}  // namespace plait::cuda
