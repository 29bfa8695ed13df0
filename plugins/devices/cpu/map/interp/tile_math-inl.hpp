// Elementary functions over f32 vectors of any width, for the interpreter. Included once per
// instruction set.
#if defined(PLAIT_MAP_TILE_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_MAP_TILE_MATH_INL
#undef PLAIT_MAP_TILE_MATH_INL
#else
#define PLAIT_MAP_TILE_MATH_INL
#endif

#include <hwy/highway.h>

#include <limits>

#include "plugins/devices/cpu/map/poly.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::interp {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using DI = hn::RebindToSigned<D>;
using VI = hn::Vec<DI>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

HWY_INLINE V Lit(float f) { return hn::Set(D(), f); }
HWY_INLINE VI Int(int i) { return hn::Set(DI(), i); }

template <size_t N>
HWY_INLINE V Poly(const float (&c)[N], V x) {
  V p = Lit(c[N - 1]);
  for (size_t k = N - 1; k-- > 0;) p = hn::MulAdd(p, x, Lit(c[k]));
  return p;
}

HWY_INLINE V Pow2(VI n) { return hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(n, Int(127)))); }

// x = n ln2 + r; returns e^r - 1.
HWY_INLINE V SplitExp(V x, V& n) {
  n = hn::Round(hn::Mul(x, Lit(poly::kLog2E)));
  V r = hn::NegMulAdd(n, Lit(poly::kLn2Hi), x);
  r = hn::NegMulAdd(n, Lit(poly::kLn2Lo), r);
  return hn::MulAdd(hn::Mul(r, r), Poly(poly::kExp, r), r);
}

// Not for NaN; 0 below -104, infinity above 89. Scales by two factors, so that results may be
// denormal.
HWY_INLINE V ExpNumber(V x) {
  V n;
  const V e_r = SplitExp(hn::Max(Lit(-104.0f), hn::Min(Lit(89.0f), x)), n);
  const VI i = hn::ConvertTo(DI(), n);
  const VI half = hn::ShiftRight<1>(i);
  return hn::Mul(hn::Mul(hn::Add(e_r, Lit(1.0f)), Pow2(half)), Pow2(hn::Sub(i, half)));
}

// Written with Eq: whether Ne holds for NaN depends on the instruction set.
HWY_INLINE V KeepNan(V x, V r) { return hn::IfThenElse(hn::Eq(x, x), r, x); }

HWY_INLINE V Exp(V x) { return KeepNan(x, ExpNumber(x)); }

// For -30 <= x <= 89. Computes half of the result first, since 2^128 is not an f32.
HWY_INLINE V Expm1Number(V x) {
  V n;
  const V e_r = SplitExp(hn::Max(Lit(-30.0f), hn::Min(Lit(89.0f), x)), n);
  const V scale = Pow2(hn::Sub(hn::ConvertTo(DI(), n), Int(1)));
  const V half = hn::MulAdd(e_r, scale, hn::Sub(scale, Lit(0.5f)));
  return hn::Add(half, half);
}

HWY_INLINE V Expm1(V x) {
  const V r = hn::IfThenElse(hn::Lt(hn::Abs(x), Lit(0x1p-25f)), x, Expm1Number(x));
  return KeepNan(x, r);
}

HWY_INLINE V Sigmoid(V x) {
  const V z = ExpNumber(hn::Neg(hn::Abs(x)));
  const V top = hn::IfThenElse(hn::Lt(x, hn::Zero(D())), z, Lit(1.0f));
  return KeepNan(x, hn::Div(top, hn::Add(Lit(1.0f), z)));
}

HWY_INLINE V Tanh(V x) {
  const V a = hn::Min(Lit(9.02f), hn::Abs(x));
  const V t = Expm1Number(hn::Add(a, a));
  const V y = hn::CopySign(hn::Div(t, hn::Add(t, Lit(2.0f))), x);
  return KeepNan(x, hn::IfThenElse(hn::Lt(hn::Abs(x), Lit(0x1p-13f)), x, y));
}

HWY_INLINE V Erf(V x) {
  const V a = hn::Abs(x);
  const V near = hn::MulAdd(x, Poly(poly::kErfSmall, hn::Mul(x, x)), x);
  const V rest = ExpNumber(Poly(poly::kErfLarge, hn::Min(Lit(poly::kErfEnd), a)));
  const V far = hn::CopySign(hn::Sub(Lit(1.0f), rest), x);
  return KeepNan(x, hn::IfThenElse(hn::Lt(a, Lit(1.0f)), near, far));
}

// x = 2^e m with 3/4 <= m < 3/2, for normal x > 0.
HWY_INLINE V SplitLog(V x, V& e) {
  const VI bits = hn::BitCast(DI(), x);
  const VI i = hn::ShiftRight<23>(hn::Sub(bits, Int(0x3f400000)));
  e = hn::ConvertTo(D(), i);
  return hn::BitCast(D(), hn::Sub(bits, hn::ShiftLeft<23>(i)));
}

HWY_INLINE V LogOfParts(V e, V f) {
  const V square = hn::Mul(f, f);
  const V small = hn::MulAdd(square, Poly(poly::kLog, f), hn::Mul(e, Lit(poly::kLn2Lo)));
  return hn::MulAdd(e, Lit(poly::kLn2Hi), hn::Add(small, f));
}

HWY_INLINE V WithLogEdges(V x, V r) {
  r = hn::IfThenElse(hn::Eq(x, Lit(kInf)), x, r);
  r = hn::IfThenElse(hn::Lt(x, hn::Zero(D())), Lit(kNan), r);
  r = hn::IfThenElse(hn::Eq(x, hn::Zero(D())), Lit(-kInf), r);
  return KeepNan(x, r);
}

HWY_INLINE V Log(V x) {
  const auto tiny = hn::Lt(x, Lit(std::numeric_limits<float>::min()));
  V e;
  const V m = SplitLog(hn::IfThenElse(tiny, hn::Mul(x, Lit(0x1p23f)), x), e);
  e = hn::Add(e, hn::IfThenElseZero(tiny, Lit(-23.0f)));
  return WithLogEdges(x, LogOfParts(e, hn::Sub(m, Lit(1.0f))));
}

HWY_INLINE V Log1p(V x) {
  const V u = hn::Add(Lit(1.0f), x);
  V e;
  const V m = SplitLog(u, e);
  // The rounding error of the sum 1 + x, at the scale of its mantissa.
  const V lost = hn::Sub(x, hn::Sub(u, Lit(1.0f)));
  const V scale = Pow2(hn::ConvertTo(DI(), hn::Neg(hn::Min(Lit(126.0f), e))));
  const V f = hn::MulAdd(lost, scale, hn::Sub(m, Lit(1.0f)));
  const V r = WithLogEdges(u, LogOfParts(e, f));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), Lit(0x1p-25f)), x, r);
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::interp
HWY_AFTER_NAMESPACE();

#endif
