// optimizer-lamb: Adam's update, scaled for each tensor to the norm of the parameter (You et al.
// 2019, arXiv:1904.00962, algorithm 2 with φ(z) = z). The matrix of each expert is a
// tensor of its own.
#include "plugins/optimizers/groups.hpp"
#include "plugins/optimizers/moments.hpp"

namespace {
using namespace plait;

constexpr plait_option kLamb[] = {
    moments::kOptions[0],
    moments::kOptions[1],
    above(opt_real("eps", "1e-6", "added to the root of the mean squared gradient"), 0),
    opt_bool("adapt_vectors", "true",
             "scale biases and gains, too; false: Adam's update for what has one dimension"),
};

uint32_t scope_of(const Options& o, const plait_parameter_info& p) {
  const bool adapts = p.shape.ndim > 1 || o.flag("adapt_vectors");
  return adapts && !(p.flags & PLAIT_PARAMETER_ELEMENTWISE) ? PLAIT_SCOPE_TENSOR
                                                            : PLAIT_SCOPE_ELEMENT;
}

// ‖parameter‖ / ‖update‖; 1 where one of them is 0.
Value trust_ratio(const Builder& b, const Update& u, Value update) {
  const auto norm = [&](Value x) { return sqrt(groups::sum_squares(b, u, x)); };
  const Value own = norm(u.parameter), of_update = norm(update), one = b.constant(1);
  const Value divisor = select(of_update > 0.0, of_update, one);
  return select(own > 0.0, select(of_update > 0.0, own / divisor, one), one);
}

Value build_lamb(Builder& b, const Options& o, const Update& u) {
  const Value update = moments::direction(b, o, u, u.gradient) + u.weight_decay * u.parameter;
  if (u.scope == PLAIT_SCOPE_ELEMENT) return u.parameter - u.learning_rate * update;
  return u.parameter - u.learning_rate * trust_ratio(b, u, update) * update;
}
}  // namespace

PLAIT_PLUGIN("optimizer-lamb", "0.1.0", "Apache-2.0", "LAMB") {
  static const auto lamb = optimizer<build_lamb, scope_of>(
      "lamb", "AdamW with a step per tensor, of experts per matrix, for large batches", 1e-3, 0.01,
      kLamb);
  host.add(lamb);
}
