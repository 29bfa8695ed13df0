// Compiled once per instruction set; the table for the best one is chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/map/interp/tile_ops_f32.cpp"
// Targets whose code here would equal that of the target below them.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "plugins/devices/cpu/map/interp/tile_math-inl.hpp"
#include "plugins/devices/cpu/map/interp/tile_ops.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::interp {
namespace HWY_NAMESPACE {

HWY_INLINE V Truth(hn::Mask<D> m) { return hn::IfThenElseZero(m, Lit(1.0f)); }
HWY_INLINE hn::Mask<D> True(V v) { return hn::Not(hn::Eq(v, hn::Zero(D()))); }

#define PLAIT_OP(Name, expression)                                                              \
  struct Name {                                                                                 \
    static HWY_INLINE V Run([[maybe_unused]] V a, [[maybe_unused]] V b, [[maybe_unused]] V c) { \
      return expression;                                                                        \
    }                                                                                           \
  }

PLAIT_OP(OpAdd, hn::Add(a, b));
PLAIT_OP(OpSub, hn::Sub(a, b));
PLAIT_OP(OpMul, hn::Mul(a, b));
PLAIT_OP(OpDiv, hn::Div(a, b));
PLAIT_OP(OpMax, KeepNan(b, hn::IfThenElse(hn::Lt(a, b), b, a)));
PLAIT_OP(OpMin, KeepNan(b, hn::IfThenElse(hn::Lt(b, a), b, a)));
PLAIT_OP(OpNeg, hn::Neg(a));
PLAIT_OP(OpAbs, hn::Abs(a));
PLAIT_OP(OpExp, Exp(a));
PLAIT_OP(OpLog, Log(a));
PLAIT_OP(OpSqrt, hn::Sqrt(a));
PLAIT_OP(OpRsqrt, hn::Div(Lit(1.0f), hn::Sqrt(a)));
PLAIT_OP(OpRecip, hn::Div(Lit(1.0f), a));
PLAIT_OP(OpTanh, Tanh(a));
PLAIT_OP(OpSigmoid, Sigmoid(a));
PLAIT_OP(OpErf, Erf(a));
PLAIT_OP(OpRelu, hn::IfThenElse(hn::Lt(a, hn::Zero(D())), hn::Zero(D()), a));
PLAIT_OP(OpFloor, hn::Floor(a));
PLAIT_OP(OpSign, hn::IfThenElse(hn::Lt(hn::Zero(D()), a), Lit(1.0f),
                                hn::IfThenElse(hn::Lt(a, hn::Zero(D())), Lit(-1.0f), a)));
PLAIT_OP(OpLt, Truth(hn::Lt(a, b)));
PLAIT_OP(OpLe, Truth(hn::Le(a, b)));
PLAIT_OP(OpEq, Truth(hn::Eq(a, b)));
PLAIT_OP(OpSelect, hn::IfThenElse(True(a), b, c));
PLAIT_OP(OpFma, hn::MulAdd(a, b, c));
PLAIT_OP(OpExpm1, Expm1(a));
PLAIT_OP(OpLog1p, Log1p(a));
PLAIT_OP(OpIsFinite, Truth(hn::Lt(hn::Abs(a), Lit(kInf))));
PLAIT_OP(OpAnd, Truth(hn::And(True(a), True(b))));
PLAIT_OP(OpOr, Truth(hn::Or(True(a), True(b))));
PLAIT_OP(OpNot, Truth(hn::Eq(a, hn::Zero(D()))));
#undef PLAIT_OP

template <class Op, int kArity>
HWY_NOINLINE void Tile(const float* a, const float* b, const float* c, float* dst, size_t n) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V zero = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V va = hn::LoadU(d, a + i);
    const V vb = kArity > 1 ? hn::LoadU(d, b + i) : zero;
    const V vc = kArity > 2 ? hn::LoadU(d, c + i) : zero;
    hn::StoreU(Op::Run(va, vb, vc), d, dst + i);
  }
  if (i == n) return;
  // The last elements use the same vector arithmetic, through a buffer.
  HWY_ALIGN float last[3][hn::MaxLanes(d)] = {};
  const float* from[3] = {a, b, c};
  const size_t left = n - i;
  for (int k = 0; k < kArity; ++k) std::memcpy(last[k], from[k] + i, left * sizeof(float));
  const V r = Op::Run(hn::Load(d, last[0]), hn::Load(d, last[1]), hn::Load(d, last[2]));
  hn::Store(r, d, last[0]);
  std::memcpy(dst + i, last[0], left * sizeof(float));
}

// Element by element through the C library: for rare operations, and as the reference for the
// generated code.
void TilePow(const float* a, const float* b, const float*, float* dst, size_t n) {
  for (size_t i = 0; i < n; ++i)
    dst[i] = static_cast<float>(std::pow(static_cast<double>(a[i]), static_cast<double>(b[i])));
}

// Rounds once, also where the instruction set would round twice.
void TileFma(const float* a, const float* b, const float* c, float* dst, size_t n) {
#if HWY_NATIVE_FMA
  Tile<OpFma, 3>(a, b, c, dst, n);
#else
  for (size_t i = 0; i < n; ++i) dst[i] = std::fma(a[i], b[i], c[i]);
#endif
}

const TileOp<float>* Table() {
  static constexpr TileOp<float> table[kMapOps] = {
      nullptr,           nullptr,         Tile<OpAdd, 2>,     Tile<OpSub, 2>,   Tile<OpMul, 2>,
      Tile<OpDiv, 2>,    Tile<OpMax, 2>,  Tile<OpMin, 2>,     TilePow,          Tile<OpNeg, 1>,
      Tile<OpAbs, 1>,    Tile<OpExp, 1>,  Tile<OpLog, 1>,     Tile<OpSqrt, 1>,  Tile<OpRsqrt, 1>,
      Tile<OpRecip, 1>,  Tile<OpTanh, 1>, Tile<OpSigmoid, 1>, Tile<OpErf, 1>,   Tile<OpRelu, 1>,
      Tile<OpFloor, 1>,  Tile<OpSign, 1>, Tile<OpLt, 2>,      Tile<OpLe, 2>,    Tile<OpEq, 2>,
      Tile<OpSelect, 3>, TileFma,         Tile<OpExpm1, 1>,   Tile<OpLog1p, 1>, Tile<OpIsFinite, 1>,
      Tile<OpAnd, 2>,    Tile<OpOr, 2>,   Tile<OpNot, 1>,
  };
  return table;
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::interp
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu::interp {

HWY_EXPORT(Table);
const TileOp<float>* tile_ops_f32() { return HWY_DYNAMIC_DISPATCH(Table)(); }

}  // namespace plait::cpu::interp
#endif
