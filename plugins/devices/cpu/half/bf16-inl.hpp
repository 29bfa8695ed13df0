// bf16 in vectors: rounding, widening, and pairs of elements as instructions for products of bf16
// take them. Compiled once per instruction set, inside HWY_NAMESPACE.
#if defined(PLAIT_CPU_BF16_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_BF16_INL
#undef PLAIT_CPU_BF16_INL
#else
#define PLAIT_CPU_BF16_INL
#endif

#include "kit/half.hpp"
#include "plugins/devices/cpu/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

using B32 = hn::Repartition<uint32_t, F32>;
using B16 = hn::Rebind<uint16_t, F32>;
using VB = hn::Vec<B32>;

// Bits of f32 to the bits of the nearest bf16, even where two are, in the low half. NaN stays NaN.
HWY_INLINE VB bf16_bits(VB bits) {
  const VB odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(B32(), 1));
  const VB rounded = hn::Add(bits, hn::Add(odd, hn::Set(B32(), 0x7fff)));
  const VB size = hn::And(bits, hn::Set(B32(), 0x7fffffff));
  const auto is_nan = hn::RebindMask(
      B32(), hn::Gt(hn::BitCast(I32(), size), hn::Set(I32(), 0x7f800000)));  // both below 2^31
  return hn::ShiftRight<16>(
      hn::IfThenElse(is_nan, hn::Or(bits, hn::Set(B32(), 0x400000)), rounded));
}
// bf16 in the low half of each lane.
HWY_INLINE VB bf16_of(VF v) { return bf16_bits(hn::BitCast(B32(), v)); }

HWY_INLINE VB load_bf16(const uint16_t* from) {
  return hn::PromoteTo(B32(), hn::LoadU(B16(), from));
}
HWY_INLINE void store_bf16(VB bits, uint16_t* to) {
  const hn::Rebind<int32_t, F32> signed_bits;
  // Below 2^16, so that saturation never acts.
  hn::StoreU(hn::DemoteTo(B16(), hn::BitCast(signed_bits, bits)), B16(), to);
}
HWY_INLINE VF bf16_to_f32(VB bits) { return hn::BitCast(F32(), hn::ShiftLeft<16>(bits)); }

// to[j] = factor * from[j], rounded.
HWY_INLINE void narrow_row(const float* from, float factor, uint16_t* to, int64_t n) {
  const VF f = hn::Set(F32(), factor);
  int64_t j = 0;
  for (; j + lanes() <= n; j += lanes())
    store_bf16(bf16_of(hn::Mul(f, hn::LoadU(F32(), from + j))), to + j);
  for (; j < n; ++j) to[j] = kit::to_bf16(factor * from[j]);
}

// n pairs of two rows: to[2j] = low[j], to[2j + 1] = high[j]; n: whole vectors.
HWY_INLINE void pair_rows(const uint16_t* low, const uint16_t* high, uint16_t* to, int64_t n) {
  for (int64_t j = 0; j < n; j += lanes())
    hn::StoreU(hn::Or(load_bf16(low + j), hn::ShiftLeft<16>(load_bf16(high + j))), B32(),
               reinterpret_cast<uint32_t*>(to + 2 * j));
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PLAIT_CPU_BF16_INL
