// The activations that matmul can fuse, in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <string>
#include <string_view>

#include "kit/op_attrs.hpp"

namespace plait::support {

enum class Activation { none, relu, tanh, sigmoid, gelu, gelu_tanh, silu };

// Throws kit::Invalid for a name that is none.
inline Activation activation_named(std::string_view name) {
  constexpr std::string_view kNames[] = {"none", "relu",      "tanh", "sigmoid",
                                         "gelu", "gelu_tanh", "silu"};
  const auto* at = std::ranges::find(kNames, name);
  kit::need(at != std::end(kNames), "unknown activation '" + std::string(name) + "'");
  return static_cast<Activation>(at - kNames);
}

inline double activate(Activation kind, double v) {
  switch (kind) {
    case Activation::none:
      return v;
    case Activation::relu:
      return v < 0 ? 0 : v;  // NaN propagates
    case Activation::tanh:
      return std::tanh(v);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-v));
    case Activation::gelu:
      return 0.5 * v * (1 + std::erf(v * std::numbers::sqrt2 / 2));
    case Activation::gelu_tanh:  // sqrt(2/pi) (v + 0.044715 v^3)
      return 0.5 * v * (1 + std::tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
    case Activation::silu:
      return v / (1 + std::exp(-v));
  }
  return v;
}

}  // namespace plait::support
