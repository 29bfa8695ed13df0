// optimizer-rmsprop: the gradient divided by the root of its running mean square. Weight decay is
// added to the gradient (L2).
#include <plait/plugin.hpp>

namespace {
using namespace plait;

constexpr plait_option kRmsprop[] = {
    below(at_least(opt_real("alpha", "0.99", "decay of the mean of squared gradients"), 0), 1),
    above(opt_real("eps", "1e-8", "added to the root of the mean square"), 0),
    below(at_least(opt_real("momentum", "0.0", "weight of the previous update"), 0), 1),
    opt_bool("centered", "false",
             "divide by the standard deviation instead of the root mean square"),
};

// The running mean of g².
Value mean_square(const Builder& b, double alpha, Value g) {
  const Value square = alpha * b.state("square") + (1 - alpha) * (g * g);
  b.set_state("square", square);
  return square;
}

// The running mean of g² without the square of the running mean of g: the same number, but no
// difference of two that may be nearly equal, of which states of bf16 leave nothing. (Finch 2009,
// "Incremental calculation of weighted mean and variance", section 9.)
Value around_mean(const Builder& b, double alpha, Value g) {
  const Value mean = b.state("mean"), away = g - mean;
  const Value variance = alpha * (b.state("variance") + (1 - alpha) * (away * away));
  b.set_state("mean", mean + (1 - alpha) * away);
  b.set_state("variance", variance);
  return variance;
}

Value build_rmsprop(Builder& b, const Options& o, const Update& u) {
  const double alpha = o.real("alpha"), momentum = o.real("momentum");
  const Value g = u.gradient + u.weight_decay * u.parameter;
  const Value variance = o.flag("centered") ? around_mean(b, alpha, g) : mean_square(b, alpha, g);
  const Value scaled = g / (sqrt(variance) + o.real("eps"));
  if (momentum == 0) return u.parameter - u.learning_rate * scaled;
  const Value velocity = momentum * b.state("momentum") + scaled;
  b.set_state("momentum", velocity);
  return u.parameter - u.learning_rate * velocity;
}
}  // namespace

PLAIT_PLUGIN("optimizer-rmsprop", "0.1.0", "Apache-2.0", "RMSprop") {
  static const auto rmsprop = optimizer<build_rmsprop>(
      "rmsprop", "gradient over the root of its running mean square", 0.01, 0, kRmsprop);
  host.add(rmsprop);
}
