// SGD with momentum 0.5 written with positions in place of a velocity:
//   p' = p - rate * g + 0.5 * (p - previous p)
// (Polyak 1964). Its states keep old values of the parameter and of each other, as sgd's do not.
#include <plait/plugin.hpp>

namespace {
using namespace plait;

// `tensor`: the states are of whole tensors, and one takes the old value of the other.
constexpr plait_option kOptions[] = {opt_bool("tensor", "false", "whole parameters")};

uint32_t scope_of(const Options& o, const plait_parameter_info&) {
  return o.flag("tensor") ? PLAIT_SCOPE_TENSOR : PLAIT_SCOPE_ELEMENT;
}

Value next(const Update& u, const Value& previous) {
  // There is no previous position before the first step.
  const Value moved = select(u.step <= 1.0, 0.0 * u.parameter, u.parameter - previous);
  return u.parameter - u.learning_rate * u.gradient + 0.5 * moved;
}

Value build(Builder& b, const Options& o, const Update& u) {
  if (!o.flag("tensor")) {
    const Value p = next(u, b.state("previous"));
    b.set_state("previous", u.parameter);
    return p;
  }
  const Shape shape = b.shape(u.parameter);
  std::vector<int32_t> dims;
  for (int32_t d = 0; d < static_cast<int32_t>(shape.dims.size()); ++d) dims.push_back(d);
  const Value newest = b.tensor_state("newest", shape, dims),
              previous = b.tensor_state("previous", shape, dims);
  const Value p = next(u, previous);
  b.set_state("newest", p);
  b.set_state("previous", select(u.step <= 1.0, u.parameter, newest));
  return p;
}
}  // namespace

PLAIT_PLUGIN("optimizer-heavy-ball", "1.0.0", "Apache-2.0", "Momentum as positions, for tests") {
  static const auto heavy_ball = optimizer<build, scope_of>(
      "heavy_ball", "gradient descent with momentum 0.5", 0.01, 0, kOptions);
  host.add(heavy_ball);
}
