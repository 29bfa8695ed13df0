#include "plugins/devices/cpu/matmul/activation.hpp"

#include "plugins/devices/cpu/matmul/plain.hpp"

namespace plait::cpu {
namespace {

template <Activation kind>
void apply_plain(float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = activate_plain(kind, values[i]);
}

ActivationFunction activation_plain(Activation activation) {
  switch (activation) {
    case Activation::none:
      return nullptr;
    case Activation::relu:
      return apply_plain<Activation::relu>;
    case Activation::tanh:
      return apply_plain<Activation::tanh>;
    case Activation::sigmoid:
      return apply_plain<Activation::sigmoid>;
    case Activation::gelu:
      return apply_plain<Activation::gelu>;
    case Activation::gelu_tanh:
      return apply_plain<Activation::gelu_tanh>;
    case Activation::silu:
      return apply_plain<Activation::silu>;
  }
  return nullptr;
}

}  // namespace

ActivationFunction activation_function(Activation activation, Isa isa) {
  if (isa == Isa::avx512) return activation_avx512(activation);
  if (isa == Isa::avx2) return activation_avx2(activation);
  return activation_plain(activation);
}

}  // namespace plait::cpu
