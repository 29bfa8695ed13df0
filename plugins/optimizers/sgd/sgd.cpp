// optimizer-sgd: gradient descent with optional momentum. Weight decay is added to the gradient
// (L2).
#include <plait/plugin.hpp>

namespace {
using namespace plait;

constexpr plait_option kSgd[] = {
    below(at_least(opt_real("momentum", "0.0", "weight of the previous update"), 0), 1),
    opt_bool("nesterov", "false", "Nesterov momentum; needs momentum > 0 and dampening = 0"),
    below(at_least(
              opt_real("dampening", "0.0", "fraction of the gradient left out of the momentum"), 0),
          1),
};

Value build_sgd(Builder& b, const Options& o, const Update& u) {
  const double momentum = o.real("momentum"), dampening = o.real("dampening");
  const bool nesterov = o.flag("nesterov");
  if (nesterov && (momentum == 0 || dampening != 0))
    fail(PLAIT_ERR_CONFIG,
         std::string("[sgd] nesterov = true needs momentum above 0 and dampening 0; set "
                     "momentum = 0.9, or nesterov = false, at ") +
             o.origin("nesterov"));
  const Value g = u.gradient + u.weight_decay * u.parameter;
  if (momentum == 0) return u.parameter - u.learning_rate * g;

  Value added = g;
  if (dampening != 0)  // the first gradient is not dampened
    added = select(u.step <= 1.0, b.constant(1), b.constant(1 - dampening)) * g;
  const Value velocity = momentum * b.state("momentum") + added;
  b.set_state("momentum", velocity);
  return u.parameter - u.learning_rate * (nesterov ? g + momentum * velocity : velocity);
}
}  // namespace

PLAIT_PLUGIN("optimizer-sgd", "0.1.0", "Apache-2.0", "Stochastic gradient descent") {
  static const auto sgd =
      optimizer<build_sgd>("sgd", "gradient descent, optionally with momentum", 0.01, 0, kSgd);
  host.add(sgd);
}
