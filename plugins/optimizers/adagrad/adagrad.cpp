// optimizer-adagrad: the gradient divided by the root of the accumulated sum of its squares. Weight
// decay is added to the gradient (L2).
#include <plait/plugin.hpp>

namespace {
using namespace plait;

constexpr plait_option kAdagrad[] = {
    at_least(opt_real("learning_rate_decay", "0.0",
                      "divides the learning rate by 1 + learning_rate_decay·(step - 1)"),
             0),
    at_least(opt_real("initial_accumulator_value", "0.0", "initial value of the sum of squares"),
             0),
    above(opt_real("eps", "1e-10",
                   "added to the root of the sum of squares, for numerical stability"),
          0),
};

Value build_adagrad(Builder& b, const Options& o, const Update& u) {
  const double learning_rate_decay = o.real("learning_rate_decay");
  const Value rate = learning_rate_decay == 0
                         ? u.learning_rate
                         : u.learning_rate / (1.0 + (u.step - 1.0) * learning_rate_decay);
  const Value g = u.gradient + u.weight_decay * u.parameter;
  const Value sum = b.state("sum", o.real("initial_accumulator_value")) + g * g;
  b.set_state("sum", sum);
  return u.parameter - rate * (g / (sqrt(sum) + o.real("eps")));
}
}  // namespace

PLAIT_PLUGIN("optimizer-adagrad", "0.1.0", "Apache-2.0", "Adagrad") {
  static const auto adagrad = optimizer<build_adagrad>(
      "adagrad", "gradient over the root of the sum of its squares", 0.01, 0, kAdagrad);
  host.add(adagrad);
}
