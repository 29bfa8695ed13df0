#include <limits>

#include "plugins/devices/cpu/map/jit/math.hpp"
#include "plugins/devices/cpu/map/poly.hpp"

namespace plait::cpu::jit {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// e ln2 + log(1+f)
Value log_of_parts(Builder& b, Value e, Value f) {
  const Value p = b.poly(poly::kLog, f);
  const Value small = b.fma(b.mul(f, f), p, b.mul(e, b.lit(poly::kLn2Lo)));
  return b.fma(e, b.lit(poly::kLn2Hi), b.add(small, f));
}

// `r` where x is positive and finite; elsewhere the limits of the logarithm.
Value with_log_edges(Builder& b, Value x, Value r) {
  const Value zero = b.lit(0.0f);
  const Value at_most_zero = b.select(kEq, x, zero, b.lit(-kInf), b.lit(kNan));
  r = b.select(kNlt, x, b.lit(kInf), x, r);
  return b.select(kLe, x, zero, at_most_zero, r);
}

}  // namespace

LogParts split_log(Builder& b, Value x, bool may_be_denormal) {
  if (b.isa() == Isa::kAvx512) {
    const Value m = b.op(Vop::kGetMant, x);
    return {b.sub(b.op(Vop::kGetExp, x), b.op(Vop::kGetExp, m)), m};
  }
  Value shift = kNoValue;
  if (may_be_denormal) {
    const Value smallest = b.lit(std::numeric_limits<float>::min());
    shift = b.select(kLt, x, smallest, b.lit(-23.0f), b.lit(0.0f));
    x = b.select(kLt, x, smallest, b.mul(x, b.lit(0x1p23f)), x);
  }
  // After subtracting the bits of 3/4, the exponent field counts from there.
  const Value from = b.op(Vop::kIntSub, x, b.bits(0x3f400000u));
  const Value i = b.shift(Vop::kShiftRightSigned, from, 23);
  const Value m = b.op(Vop::kIntSub, x, b.shift(Vop::kShiftLeft, i, 23));
  const Value e = b.op(Vop::kIntToFloat, i);
  return {shift == kNoValue ? e : b.add(e, shift), m};
}

Value logarithm(Builder& b, Value x) {
  const auto [e, m] = split_log(b, x, true);
  const Value r = log_of_parts(b, e, b.sub(m, b.lit(1.0f)));
  // With AVX-512 the mantissa and exponent instructions handle the edges.
  return b.isa() == Isa::kAvx512 ? r : with_log_edges(b, x, r);
}

Value log1p(Builder& b, Value x) {
  // u = 1 + x is rounded; its rounding error, x - (u - 1), is added back at the scale of its
  // mantissa.
  const Value one = b.lit(1.0f);
  const Value u = b.add(one, x);
  const auto [e, m] = split_log(b, u, false);
  const Value lost = b.sub(x, b.sub(u, one));
  const Value scale = power_of_two(b, b.negate(b.at_most(126.0f, e)));
  const Value f = b.fma(lost, scale, b.sub(m, one));
  const Value r = log_of_parts(b, e, f);
  return b.select(kLt, b.abs(x), b.lit(0x1p-25f), x, with_log_edges(b, u, r));
}

Value power(Builder& b, Value x, Value y) {
  const Value one = b.lit(1.0f), zero = b.lit(0.0f), half = b.lit(0.5f);
  const Value ax = b.abs(x);
  const auto [e, m] = split_log(b, ax, true);

  // log(ax) in two parts, since the product with y magnifies its error. log(1+f) = f - f^2/2 + f^3
  // P(f).
  const Value f = b.sub(m, one);
  const Value sq = b.mul(f, f);
  const Value minus_sq_low = b.fnma(f, f, sq);
  const Value h1 = b.fnma(half, sq, f);
  const Value l1 = b.fma(half, minus_sq_low, b.fnma(half, sq, b.sub(f, h1)));
  const Value cubic = b.mul(b.mul(sq, f), b.poly(poly::kLogTail, f));
  const Value h2 = b.add(h1, cubic);
  const Value l2 = b.add(b.sub(h1, h2), cubic);
  const Value eh = b.mul(e, b.lit(poly::kLn2Hi));
  const Value h3 = b.add(eh, h2);
  const Value tail = b.fma(e, b.lit(poly::kLn2Lo), b.add(l1, l2));
  const Value l3 = b.add(b.add(b.sub(eh, h3), h2), tail);
  Value hi = b.add(h3, l3);
  const Value lo = b.add(b.sub(h3, hi), l3);
  hi = b.select(kNlt, ax, b.lit(kInf), ax, hi);
  hi = b.select(kEq, ax, zero, b.lit(-kInf), hi);

  // e^(y log ax)
  const Value ph = b.mul(y, hi);
  Value pl = b.sub(b.mul(y, lo), b.fnma(y, hi, ph));
  pl = b.select(kLt, b.abs(ph), b.lit(200.0f), pl,
                zero);  // beyond these limits it may be NaN, which is not used
  const Value in_range = b.at_least(-105.0f, b.at_most(89.0f, ph));
  const auto [n, e_r] = split_exp(b, in_range, pl);
  Value r = scale_by_power(b, b.add(e_r, one), n);
  r = b.select(kEq, hi, zero, one, r);  // ax is 1, y is arbitrary

  // The sign, for integral y; NaN for a negative base with non-integral y.
  const Value signed_one = b.op(Vop::kOr, b.sign_bit(x), one);
  const Value half_y = b.mul(y, half);
  const Value odd_result = b.mul(r, signed_one);
  const Value integral = b.select(kEq, b.op(Vop::kFloor, half_y), half_y, r, odd_result);
  Value fractional = b.select(kEq, ax, zero, r, b.lit(kNan));
  fractional = b.select(kEq, ax, b.lit(kInf), r, fractional);
  const Value negative = b.select(kEq, b.op(Vop::kFloor, y), y, integral, fractional);
  r = b.select(kLt, signed_one, zero, negative, r);
  r = b.select(kEq, x, one, one, r);
  return b.select(kEq, y, zero, one, r);
}

}  // namespace plait::cpu::jit
