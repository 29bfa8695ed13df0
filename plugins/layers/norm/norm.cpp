// layer-norm: normalisation of each row over its last axis.
#include <plait/plugin.hpp>

namespace {
using namespace plait;

constexpr plait_option kNorm[] = {
    above(opt_real("eps", "1e-5", "added to the variance for numerical stability"), 0),
    opt_bool("unit_offset", "false", "the gain is 1 + the parameter, as in Gemma"),
};

Value gain_of(const Builder& b, const Options& o, int64_t width) {
  if (!o.flag("unit_offset")) return b.parameter("gain", Shape({width}), Init::constant(1));
  return b.parameter("gain", Shape({width}), Init::constant(0)) + 1.0;
}

// Width of the last axis; checks that the input has one. x (B,…,C).
int64_t width_of(const Builder& b, Value x, const char* layer) {
  const Shape shape = b.shape(x);
  if (shape.ndim() < 2 || shape.last() == 0 || !shape.is_float())
    fail(PLAIT_ERR_CONFIG, std::string("[") + layer + "] layer '" + b.scope() + "': the input is " +
                               shape.typed_text() +
                               ", expected real numbers of shape (samples, …, features)");
  return shape.last();
}

Value build_layer_norm(Builder& b, const Options& o, std::span<const Value> x) {
  const int64_t width = width_of(b, x[0], "layer_norm");
  const Value gain = gain_of(b, o, width);
  const Value bias = b.parameter("bias", Shape({width}), Init::constant(0));
  return b.op("layer_norm", {x[0], gain, bias}, {attr("eps", o.real("eps"))});
}

Value build_rms_norm(Builder& b, const Options& o, std::span<const Value> x) {
  const int64_t width = width_of(b, x[0], "rms_norm");
  return b.op("rms_norm", {x[0], gain_of(b, o, width)}, {attr("eps", o.real("eps"))});
}
}  // namespace

PLAIT_PLUGIN("layer-norm", "0.1.0", "Apache-2.0", "Layer and RMS normalisation") {
  static const auto layer_norm = layer<build_layer_norm>(
      "layer_norm", "(x - mean)/sqrt(variance + eps)·gain + bias over the last axis", kNorm);
  static const auto rms_norm =
      layer<build_rms_norm>("rms_norm", "x/sqrt(mean(x²) + eps)·gain over the last axis", kNorm);
  host.add(layer_norm);
  host.add(rms_norm);
}
