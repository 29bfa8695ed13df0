// Activations over rows of f32 results, for the kernels that can't apply them in registers.
// Accuracy, for every x whose result is at least 1e-9: relative error below 5e-7, and below 2e-6
// for gelu_tanh, whose exponent is rounded; smaller results have an absolute error below 1e-14. NaN
// propagates.
#pragma once

#include <cstdint>

#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {

// values (count) = activation(values), in place. [thread: any] Does not allocate or throw.
using ActivationFunction = void (*)(float* values, int64_t count);

// The fastest version up to `isa`; null if there is none.
ActivationFunction activation_function(Activation activation, Isa isa);

ActivationFunction activation_avx2(Activation activation);
ActivationFunction activation_avx512(Activation activation);

}  // namespace plait::cpu
