// Element-wise functions that several layers offer.
#pragma once

#include <plait/plugin.hpp>

#include <numbers>

namespace plait::activations {

// Also called swish.
inline Value silu(Value x) { return x * sigmoid(x); }

// x times the exact normal distribution (Hendrycks and Gimpel 2016).
inline Value gelu(Value x) { return 0.5 * x * (1.0 + erf(x * (1 / std::numbers::sqrt2))); }

// The approximation by tanh of the same paper, as in GPT-2.
inline Value gelu_tanh(Value x) {
  constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2/pi)
  return 0.5 * x * (1.0 + tanh(kScale * (x + 0.044715 * (x * x * x))));
}

}  // namespace plait::activations
