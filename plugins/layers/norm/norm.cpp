// layer-norm: normalisation of each row over its last axis.
#include <plait/plugin.hpp>

#include "plugins/support/functions.hpp"

namespace {
using namespace plait;

// Checks that the input has rows. x (B,…,C).
void check_rows(const Builder& b, Value x, const char* layer) {
  const Shape shape = b.shape(x);
  if (shape.ndim() < 2 || shape.last() == 0 || !shape.is_float())
    fail(PLAIT_ERR_CONFIG, std::string("[") + layer + "] layer '" + b.scope() + "': the input is " +
                               shape.typed_text() +
                               ", expected real numbers of shape (samples, …, features)");
}

Value build_layer_norm(Builder& b, const Options& o, std::span<const Value> x) {
  check_rows(b, x[0], "layer_norm");
  return functions::layer_norm(b, o, x[0], "");
}

Value build_rms_norm(Builder& b, const Options& o, std::span<const Value> x) {
  check_rows(b, x[0], "rms_norm");
  return functions::rms_norm(b, o, x[0], "");
}
}  // namespace

PLAIT_PLUGIN("layer-norm", "0.1.0", "Apache-2.0", "Layer and RMS normalisation") {
  static const auto layer_norm = layer<build_layer_norm>(
      "layer_norm", "(x - mean)/sqrt(variance + eps)·gain + bias over the last axis",
      functions::kNorm);
  static const auto rms_norm = layer<build_rms_norm>(
      "rms_norm", "x/sqrt(mean(x²) + eps)·gain over the last axis", functions::kNorm);
  host.add(layer_norm);
  host.add(rms_norm);
}
