// SGD with momentum 0.5 written with positions in place of a velocity:
//   p' = p - rate * g + 0.5 * (p - previous p)
// (Polyak 1964). Its states keep old values of the parameter and of each other, as sgd's do not.
#include <plait/plugin.hpp>

namespace {
using namespace plait;

// `tensor`: the states are of whole tensors, and one takes the old value of the other. `exact`:
// they have a dimension of extent 1 more than the parameter, so they are f32 with any
// precision.states.
constexpr plait_option kOptions[] = {opt_bool("tensor", "false", "whole parameters"),
                                     opt_bool("exact", "false", "of tensors: states are f32")};

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
  std::vector<int64_t> extents = shape.dims;
  if (o.flag("exact")) dims.push_back(-1), extents.push_back(1);
  const auto state = [&](const char* name) {
    return b.reshape(b.tensor_state(name, Shape(extents), dims), shape.dims);
  };
  const Value newest = state("newest"), previous = state("previous");
  const Value p = next(u, previous);
  b.set_state("newest", b.reshape(p, extents));
  b.set_state("previous", b.reshape(select(u.step <= 1.0, u.parameter, newest), extents));
  return p;
}
}  // namespace

PLAIT_PLUGIN("optimizer-heavy-ball", "1.0.0", "Apache-2.0", "Momentum as positions, for tests") {
  static const auto heavy_ball = optimizer<build, scope_of>(
      "heavy_ball", "gradient descent with momentum 0.5", 0.01, 0, kOptions);
  host.add(heavy_ball);
}
