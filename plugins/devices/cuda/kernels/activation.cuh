// The activations that products can fuse: plugins/support/activation.hpp on the device.
#pragma once

#include "plugins/devices/cuda/kernels/device.cuh"

namespace plait::cuda {

__device__ inline float tanh_of(float v) { return tanhf(v); }
__device__ inline double tanh_of(double v) { return tanh(v); }
__device__ inline float exp_of(float v) { return expf(v); }
__device__ inline double exp_of(double v) { return exp(v); }
__device__ inline float erf_of(float v) { return erff(v); }
__device__ inline double erf_of(double v) { return erf(v); }

// kind: a support::Activation. A: float or double, which it computes in.
template <class A>
__device__ inline A activate(uint32_t kind, A v) {
  constexpr A kRootOfHalf = A(0.70710678118654752440), kRootOf2OverPi = A(0.79788456080286535588);
  constexpr A kHalf = A(0.5), kOne = A(1);
  switch (kind) {
    case 1:  // relu; NaN propagates
      return v < 0 ? A(0) : v;
    case 2:
      return tanh_of(v);
    case 3:  // sigmoid
      return kOne / (kOne + exp_of(-v));
    case 4:  // gelu
      return kHalf * v * (kOne + erf_of(v * kRootOfHalf));
    case 5:  // gelu_tanh
      return kHalf * v * (kOne + tanh_of(kRootOf2OverPi * (v + A(0.044715) * v * v * v)));
    case 6:  // silu
      return v / (kOne + exp_of(-v));
    default:
      return v;
  }
}

}  // namespace plait::cuda
