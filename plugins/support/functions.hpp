// What several layers offer: activations, dropout, norms.
#pragma once

#include <plait/plugin.hpp>

#include <numbers>
#include <string>

namespace plait::functions {

// Also called swish.
inline Value silu(Value x) { return x * sigmoid(x); }

// x times the exact normal distribution (Hendrycks and Gimpel 2016).
inline Value gelu(Value x) { return 0.5 * x * (1.0 + erf(x * (1 / std::numbers::sqrt2))); }

// The approximation by tanh of the same paper, as in GPT-2.
inline Value gelu_tanh(Value x) {
  constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2/pi)
  return 0.5 * x * (1.0 + tanh(kScale * (x + 0.044715 * (x * x * x))));
}

// In training, each value is 0 with probability p, else divided by 1 - p. The engine adds seed,
// stream and step: a mask depends on the layer's name and the index of the value alone.
inline Value dropout(const Builder& b, Value x, double p) {
  if (!b.training() || p == 0) return x;
  return x * ((b.op("random_uniform", {x}) >= p) * (1 / (1 - p)));
}

// The options of a norm.
inline constexpr plait_option kNorm[] = {
    above(opt_real("eps", "1e-5", "added to the variance for numerical stability"), 0),
    opt_bool("unit_offset", "false", "the gain is 1 + the parameter, as in Gemma"),
};

// The parameter "<prefix>gain" over the last axis of x, or 1 more than it.
inline Value norm_gain(const Builder& b, const Options& o, Value x, const std::string& prefix) {
  const std::string name = prefix + "gain";
  const Shape shape({b.shape(x).last()});
  if (!o.flag("unit_offset")) return b.parameter(name.c_str(), shape, Init::constant(1));
  return b.parameter(name.c_str(), shape, Init::constant(0)) + 1.0;
}

// Norms over the last axis, with the options kNorm.
inline Value layer_norm(const Builder& b, const Options& o, Value x, const std::string& prefix) {
  const Value gain = norm_gain(b, o, x, prefix);
  const Value bias =
      b.parameter((prefix + "bias").c_str(), Shape({b.shape(x).last()}), Init::constant(0));
  return b.op("layer_norm", {x, gain, bias}, {attr("eps", o.real("eps"))});
}
inline Value rms_norm(const Builder& b, const Options& o, Value x, const std::string& prefix) {
  return b.op("rms_norm", {x, norm_gain(b, o, x, prefix)}, {attr("eps", o.real("eps"))});
}

}  // namespace plait::functions
