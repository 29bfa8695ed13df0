#include <limits>

#include "plugins/devices/cpu/map/jit/math.hpp"
#include "plugins/devices/cpu/map/poly.hpp"

namespace plait::cpu::jit {
namespace {

// e^x underflows to 0 below the first limit and overflows above the second.
constexpr float kExpLow = -104.0f, kExpHigh = 89.0f;

Value limited(Builder& b, Value x) { return b.at_least(kExpLow, b.at_most(kExpHigh, x)); }

// e^x - 1 for x in [-30, 89]
Value expm1_within(Builder& b, Value x) {
  const auto [n, e_r] = split_exp(b, x);
  // Computes half of the result first: 2^128 is not an f32, 2^127 is.
  const Value half_scale = power_of_two(b, b.sub(n, b.lit(1.0f)));
  const Value half = b.fma(e_r, half_scale, b.sub(half_scale, b.lit(0.5f)));
  return b.add(half, half);
}

}  // namespace

ExpParts split_exp(Builder& b, Value x, Value low) {
  const Value n = b.op(Vop::kRound, b.mul(x, b.lit(poly::kLog2E)));
  Value r = b.fnma(n, b.lit(poly::kLn2Hi), x);
  r = b.fnma(n, b.lit(poly::kLn2Lo), r);
  if (low != kNoValue) r = b.add(r, low);
  const Value q = b.poly(poly::kExp, r);
  return {n, b.fma(b.mul(r, r), q, r)};
}

Value power_of_two(Builder& b, Value n) {
  if (b.isa() == Isa::kAvx512) return b.op(Vop::kScale, b.lit(1.0f), n);
  const Value biased = b.op(Vop::kIntAdd, b.op(Vop::kFloatToInt, n), b.bits(127));
  return b.shift(Vop::kShiftLeft, biased, 23);
}

Value scale_by_power(Builder& b, Value v, Value n) {
  if (b.isa() == Isa::kAvx512) return b.op(Vop::kScale, v, n);
  const Value i = b.op(Vop::kFloatToInt, n);
  const Value first = b.shift(Vop::kShiftRightSigned, i, 1);
  const Value second = b.op(Vop::kIntSub, i, first);
  const Value bias = b.bits(127);
  const Value s1 = b.shift(Vop::kShiftLeft, b.op(Vop::kIntAdd, first, bias), 23);
  const Value s2 = b.shift(Vop::kShiftLeft, b.op(Vop::kIntAdd, second, bias), 23);
  return b.mul(b.mul(v, s1), s2);
}

Value exponential(Builder& b, Value x) {
  const auto [n, e_r] = split_exp(b, limited(b, x));
  return scale_by_power(b, b.add(e_r, b.lit(1.0f)), n);
}

Value expm1(Builder& b, Value x) {
  const Value in_range = b.at_least(-30.0f, b.at_most(kExpHigh, x));
  // Tiny x are returned unchanged; the halving above would lose the last bit of denormals.
  return b.select(kLt, b.abs(x), b.lit(0x1p-25f), x, expm1_within(b, in_range));
}

Value sigmoid(Builder& b, Value x) {
  // With z = e^-|x| neither branch overflows nor cancels: 1/(1+z) or z/(1+z).
  const Value minus_abs = b.op(Vop::kOr, x, b.bits(0x80000000u));
  const auto [n, e_r] = split_exp(b, b.at_least(kExpLow, minus_abs));
  const Value one = b.lit(1.0f);
  const Value z = scale_by_power(b, b.add(e_r, one), n);
  return b.div(b.select(kLt, x, b.lit(0.0f), z, one), b.add(one, z));
}

Value hyperbolic_tangent(Builder& b, Value x) {
  // t/(t+2) with t = e^2|x| - 1, which is 1 in f32 from 9.02 on.
  const Value a = b.at_most(9.02f, b.abs(x));
  const Value t = expm1_within(b, b.add(a, a));
  const Value y = b.div(t, b.add(t, b.lit(2.0f)));
  return b.select(kLt, b.abs(x), b.lit(0x1p-13f), x, b.op(Vop::kOr, y, b.sign_bit(x)));
}

Value error_function(Builder& b, Value x) {
  const Value a = b.abs(x), one = b.lit(1.0f);
  const Value near = b.fma(x, b.poly(poly::kErfSmall, b.mul(x, x)), x);
  const Value log_rest = b.poly(poly::kErfLarge, b.at_most(poly::kErfEnd, a));
  const auto [n, e_r] = split_exp(b, log_rest);
  const Value rest = b.mul(b.add(e_r, one), power_of_two(b, n));
  const Value far = b.op(Vop::kOr, b.sub(one, rest), b.sign_bit(x));
  return b.select(kLt, a, one, near, far);
}

}  // namespace plait::cpu::jit
