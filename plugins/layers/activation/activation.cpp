// layer-activation: element-wise functions, and softmax over the last axis.
//
// The engine fuses some of them into the preceding matmul; it recognises them by their ops.
#include <plait/plugin.hpp>

#include "plugins/support/functions.hpp"

namespace {
using namespace plait;
using In = std::span<const Value>;

Value build_relu(Builder&, const Options&, In x) { return relu(x[0]); }
Value build_tanh(Builder&, const Options&, In x) { return tanh(x[0]); }
Value build_sigmoid(Builder&, const Options&, In x) { return sigmoid(x[0]); }
Value build_silu(Builder&, const Options&, In x) { return functions::silu(x[0]); }
Value build_gelu(Builder&, const Options&, In x) { return functions::gelu(x[0]); }
Value build_gelu_tanh(Builder&, const Options&, In x) { return functions::gelu_tanh(x[0]); }
Value build_softmax(Builder& b, const Options&, In x) { return b.op("softmax", {x[0]}); }

constexpr plait_option kLeakyRelu[] = {opt_real("slope", "0.01", "factor for negative inputs")};
Value build_leaky_relu(Builder&, const Options& o, In x) {
  return select(x[0] > 0.0, x[0], o.real("slope") * x[0]);
}

constexpr plait_option kSoftplus[] = {
    above(opt_real("beta", "1.0", "sharpness of the bend at 0"), 0)};
// log(1 + exp(βx))/β, written so that nothing overflows and the gradient at 0 is exactly 1/2.
Value build_softplus(Builder&, const Options& o, In in) {
  const double beta = o.real("beta");
  const Value z = beta == 1 ? in[0] : beta * in[0];
  const Value y = 0.5 * (z + abs(z)) + log1p(exp(-abs(z)));
  return beta == 1 ? y : y * (1 / beta);
}
}  // namespace

PLAIT_PLUGIN("layer-activation", "0.1.0", "Apache-2.0", "Activation functions") {
  static const plait_layer_item items[] = {
      layer<build_relu>("relu", "max(x, 0)"),
      layer<build_gelu>("gelu",
                        "x·Φ(x) with the exact normal distribution: 0.5x(1 + erf(x/sqrt 2))"),
      layer<build_gelu_tanh>("gelu_tanh", "tanh approximation of gelu, as in GPT-2"),
      layer<build_silu>("silu", "x·sigmoid(x), also called swish"),
      layer<build_tanh>("tanh", "hyperbolic tangent"),
      layer<build_sigmoid>("sigmoid", "1/(1 + exp(-x))"),
      layer<build_leaky_relu>("leaky_relu", "x where positive, slope·x elsewhere", kLeakyRelu),
      layer<build_softplus>("softplus", "log(1 + exp(beta·x))/beta, a smooth relu", kSoftplus),
      layer<build_softmax>("softmax",
                           "probabilities over the last axis; cross_entropy needs logits instead"),
  };
  for (const auto& item : items) host.add(item);
}
