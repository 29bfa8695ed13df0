// The activations that matmul can fuse, in double.
#pragma once

#include <cmath>
#include <numbers>
#include <optional>
#include <string_view>

namespace plait::support {

enum class Activation { none, relu, tanh, sigmoid, gelu, gelu_tanh, silu };

constexpr std::optional<Activation> activation_named(std::string_view name) {
  constexpr std::string_view kNames[] = {"none", "relu",      "tanh", "sigmoid",
                                         "gelu", "gelu_tanh", "silu"};
  for (int i = 0; i < 7; ++i)
    if (name == kNames[i]) return static_cast<Activation>(i);
  return std::nullopt;
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
