// The two moving averages of Adam and its relatives, as Kingma and Ba define them, with PyTorch's
// order of operations.
#pragma once

#include <plait/plugin.hpp>

#include <cmath>

namespace plait::moments {

inline constexpr plait_option kOptions[] = {
    below(at_least(opt_real("beta1", "0.9", "decay of the mean of gradients"), 0), 1),
    below(at_least(opt_real("beta2", "0.999", "decay of the mean of squared gradients"), 0), 1),
    above(opt_real("eps", "1e-8", "added to the root of the mean squared gradient"), 0),
};

// 1 - beta^step, the bias of an average that started at 0. expm1 keeps it accurate in f32 where 1 -
// pow would cancel.
inline Value correction(const Builder& b, double beta, Value step) {
  return beta == 0 ? b.constant(1) : -expm1(step * std::log(beta));
}

// The states m and v after gradient g.
struct Averages {
  Value m, v;
};
inline Averages averages(const Builder& b, const Options& o, Value g) {
  const double beta1 = o.real("beta1"), beta2 = o.real("beta2");
  const Value m = beta1 * b.state("m") + (1 - beta1) * g;
  const Value v = beta2 * b.state("v") + (1 - beta2) * (g * g);
  b.set_state("m", m);
  b.set_state("v", v);
  return {m, v};
}

// m / (sqrt(v̂) + eps): without the correction of m.
inline Value ratio(const Builder& b, const Options& o, const Update& u, const Averages& a,
                   const char* eps = "eps") {
  const Value scale = rsqrt(correction(b, o.real("beta2"), u.step));
  return a.m / (sqrt(a.v) * scale + o.real(eps));
}

// m̂ / (sqrt(v̂) + eps) for gradient g. Updates the states.
inline Value direction(const Builder& b, const Options& o, const Update& u, Value g,
                       const char* eps = "eps") {
  const Averages a = averages(b, o, g);
  return ratio(b, o, u, a, eps) / correction(b, o.real("beta1"), u.step);
}

// The amount to subtract from the parameter for gradient g: learning_rate·m̂/(sqrt(v̂) + eps).
// Updates the states m and v.
inline Value change(const Builder& b, const Options& o, const Update& u, Value g) {
  const Averages a = averages(b, o, g);
  const Value size = u.learning_rate / correction(b, o.real("beta1"), u.step);
  return size * ratio(b, o, u, a);
}

}  // namespace plait::moments
