// Activations on vectors, written once for every instruction set. The including file first defines
// PLAIT_TARGET, the function attribute that names the set, and passes the loops a class V with
//   the type F, the width kLanes, load, store, load_part, store_part, set,
//   add, sub, mul, div, min, max, abs, round, fma (a*b+c), fnma (c-a*b), scale (x * 2^n),
//   sign_of (magnitude, sign), less_select (a < b ? x : y).
// Each set has its own V, hence its own instantiations: code for one set is never used by another.
#pragma once

#ifndef PLAIT_TARGET
#error "define PLAIT_TARGET before this header"
#endif

#include <cstdint>

#include "plugins/devices/cpu/matmul/matmul.hpp"

#define PLAIT_INLINE PLAIT_TARGET __attribute__((always_inline)) inline

namespace plait::cpu {

// Coefficients are listed from the highest power to the lowest.
template <class V, class... Rest>
PLAIT_INLINE typename V::F polynomial(typename V::F x, float first, Rest... rest) {
  typename V::F sum = V::set(first);
  ((sum = V::fma(sum, x, V::set(rest))), ...);
  return sum;
}

// e^x; 0 below -104 and infinity above 89. Relative error 1e-7.
template <class V>
PLAIT_INLINE typename V::F exp_of(typename V::F x) {
  using F = typename V::F;
  // With this order of operands NaN propagates.
  x = V::min(V::set(89.0f), V::max(V::set(-104.0f), x));
  const F n = V::round(V::mul(x, V::set(1.44269504f)));
  F r = V::fnma(n, V::set(0.693145752f), x);  // ln 2 in two parts
  r = V::fnma(n, V::set(1.42860677e-6f), r);
  const F tail =
      polynomial<V>(r, 1.39505246e-3f, 8.36890835e-3f, 4.16662060e-2f, 1.66665187e-1f, 0.5f);
  return V::scale(V::add(V::set(1.0f), V::fma(V::mul(r, r), tail, r)), n);
}

template <class V>
struct Tanh {
  PLAIT_INLINE static typename V::F of(typename V::F x) {
    using F = typename V::F;
    const F size = V::abs(x);
    const F z = V::mul(x, x);
    // A polynomial near 0, where 1 - 2/(e^2x + 1) would cancel.
    const F p = polynomial<V>(z, -5.67931254e-3f, 2.06181305e-2f, -5.37340027e-2f, 1.33313837e-1f,
                              -3.33332802e-1f);
    const F near = V::fma(V::mul(x, z), p, x);
    const F one = V::set(1.0f);
    const F e = exp_of<V>(V::add(size, size));
    const F far = V::sub(one, V::div(V::set(2.0f), V::add(e, one)));
    return V::less_select(size, V::set(0.625f), near, V::sign_of(far, x));
  }
};

// x / (1 + e^-y), the common form of sigmoid (x = 1), silu and gelu_tanh.
template <class V>
PLAIT_INLINE typename V::F gated(typename V::F x, typename V::F y) {
  return V::div(x, V::add(V::set(1.0f), exp_of<V>(V::sub(V::set(0.0f), y))));
}

template <class V>
struct Sigmoid {
  PLAIT_INLINE static typename V::F of(typename V::F x) { return gated<V>(V::set(1.0f), x); }
};

template <class V>
struct Silu {
  PLAIT_INLINE static typename V::F of(typename V::F x) { return gated<V>(x, x); }
};

template <class V>
struct GeluTanh {
  PLAIT_INLINE static typename V::F of(typename V::F x) {
    // tanh u = 2 sigmoid(2u) - 1, and 2u = 2 sqrt(2/pi) (x + 0.044715 x^3)
    const typename V::F z = V::mul(x, x);
    return gated<V>(x, V::mul(x, V::fma(z, V::set(0.0713548163f), V::set(1.59576912f))));
  }
};

template <class V>
struct Gelu {
  PLAIT_INLINE static typename V::F of(typename V::F x) {
    using F = typename V::F;
    const F one = V::set(1.0f);
    const F size = V::min(V::set(20.0f), V::abs(x));  // beyond 14.5 the tail is 0
    // erfc(t) = e^(-t^2) s Q(s) with t = |x|/sqrt 2 and s = 1/(1 + 0.4 t)
    const F s = V::div(one, V::fma(size, V::set(0.282842712f), one));
    const F q = polynomial<V>(s, -3.03914723e-2f, 2.02359910e-1f, -5.09078926e-1f, 5.61197331e-1f,
                              -2.95877733e-1f, 2.78284526e-1f, 1.27514476e-1f, 2.15386808e-1f,
                              2.24895228e-1f, 2.25709860e-1f);
    // The exponent's rounding error would be magnified: the error of the squaring is added back
    // afterwards.
    const F square = V::mul(size, size);
    const F lost = V::fma(size, size, V::sub(V::set(0.0f), square));
    F e = exp_of<V>(V::mul(V::set(-0.5f), square));
    e = V::fnma(V::mul(V::set(0.5f), lost), e, e);
    const F tail = V::mul(V::set(0.5f), V::mul(e, V::mul(s, q)));  // of the normal distribution
    return V::mul(x, V::less_select(x, V::set(0.0f), tail, V::sub(one, tail)));
  }
};

template <class V>
struct Relu {
  PLAIT_INLINE static typename V::F of(typename V::F x) { return V::max(V::set(0.0f), x); }
};

template <class V, template <class> class Function>
PLAIT_TARGET void activation_loop(float* values, int64_t count) {
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) {
    V::store(values + i, Function<V>::of(V::load(values + i)));
  }
  if (i < count)
    V::store_part(values + i, count - i, Function<V>::of(V::load_part(values + i, count - i)));
}

template <class V>
void (*activation_of(Activation activation))(float*, int64_t) {
  switch (activation) {
    case Activation::none:
      return nullptr;
    case Activation::relu:
      return activation_loop<V, Relu>;
    case Activation::tanh:
      return activation_loop<V, Tanh>;
    case Activation::sigmoid:
      return activation_loop<V, Sigmoid>;
    case Activation::gelu:
      return activation_loop<V, Gelu>;
    case Activation::gelu_tanh:
      return activation_loop<V, GeluTanh>;
    case Activation::silu:
      return activation_loop<V, Silu>;
  }
  return nullptr;
}

}  // namespace plait::cpu
