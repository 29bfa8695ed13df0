// What the kernels of random receive.
#pragma once

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

// y: samples, each of per_sample elements. They are runs of the whole sample's elements, in which
// run r begins at first + r * stride.
struct RandomArgs {
  const int64_t* counter;  // (step), or (step, first sample)
  AnyPointer y;
  int64_t samples, per_sample, first_sample;
  int64_t run, stride, first;
  uint64_t seed;
  uint32_t stream;  // a stream_word()
  uint32_t normal, by_sample;
};

}  // namespace plait::cuda
