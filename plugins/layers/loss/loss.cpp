// layer-loss: losses. Each returns {sum over samples of weight·loss, sum of weights}; the engine
// divides once per step. If all weights are 1 this equals PyTorch's reduction "mean".
#include "plugins/layers/samples.hpp"

namespace {
using namespace plait;
using In = std::span<const Value>;
using Sums = std::pair<Value, Value>;

constexpr plait_option kCrossEntropy[] = {below(
    at_least(
        opt_real("label_smoothing", "0.0", "fraction of the target spread evenly over all classes"),
        0),
    1)};
Sums build_cross_entropy(Builder& b, const Options& o, In in) {
  return samples::cross_entropy(b, in, o.real("label_smoothing"));
}

Sums build_mse(Builder& b, const Options&, In in) {
  const auto [x, t] = samples::values(b, in);
  const Value d = x - t;
  return samples::weighted_mean(b, d * d);
}

Sums build_mae(Builder& b, const Options&, In in) {
  const auto [x, t] = samples::values(b, in);
  return samples::weighted_mean(b, abs(x - t));
}

constexpr plait_option kHuber[] = {
    above(opt_real("delta", "1.0", "error beyond which the loss grows linearly"), 0)};
Sums build_huber(Builder& b, const Options& o, In in) {
  const auto [x, t] = samples::values(b, in);
  const double delta = o.real("delta");
  const Value d = x - t, size = abs(d);
  return samples::weighted_mean(b,
                                select(size <= delta, 0.5 * (d * d), delta * (size - 0.5 * delta)));
}

// -t·log σ(x) - (1-t)·log(1-σ(x)) without overflow; (x + |x|)/2 is max(x, 0) with gradient 1/2
// at 0.
Sums build_binary_cross_entropy(Builder& b, const Options&, In in) {
  const auto [x, t] = samples::values(b, in);
  return samples::weighted_mean(b, 0.5 * (x + abs(x)) - x * t + log1p(exp(-abs(x))));
}
}  // namespace

PLAIT_PLUGIN("layer-loss", "0.1.0", "Apache-2.0", "Losses") {
  static const plait_loss_item items[] = {
      loss<build_cross_entropy>("cross_entropy",
                                "logits against integer labels; negative labels are ignored; a "
                                "third input is the weight of each label",
                                kCrossEntropy, 2, 3),
      loss<build_mse>("mse", "mean squared error"),
      loss<build_mae>("mae", "mean absolute error"),
      loss<build_huber>("huber", "squared error near 0, absolute error beyond delta", kHuber),
      loss<build_binary_cross_entropy>("binary_cross_entropy",
                                       "logits against probabilities 0 to 1"),
  };
  for (const auto& item : items) host.add(item);
}
