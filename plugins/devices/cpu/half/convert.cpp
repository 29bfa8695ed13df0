// The bit patterns are those of kit/half.hpp, written for vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/half/convert.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "kit/half.hpp"
#include "plugins/devices/cpu/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

using U32 = hn::Repartition<uint32_t, F32>;
using U16 = hn::Rebind<uint16_t, F32>;
using VU = hn::Vec<U32>;

HWY_INLINE VU set(uint32_t v) { return hn::Set(U32(), v); }

// Whether a > b, of numbers below 2^31.
HWY_INLINE auto above(VU a, uint32_t b) {
  return hn::RebindMask(U32(),
                        hn::Gt(hn::BitCast(I32(), a), hn::Set(I32(), static_cast<int32_t>(b))));
}

// Bits of f32 to bits of bf16, in the low half.
HWY_INLINE VU bf16_bits(VU bits) {
  const VU odd = hn::And(hn::ShiftRight<16>(bits), set(1));
  const VU rounded = hn::Add(bits, hn::Add(odd, set(0x7fff)));
  const auto is_nan = above(hn::And(bits, set(0x7fffffff)), 0x7f800000);
  return hn::ShiftRight<16>(hn::IfThenElse(is_nan, hn::Or(bits, set(0x400000)), rounded));
}

HWY_INLINE VU f16_to_f32_bits(VU v) {
  const VU size = hn::And(v, set(0x7fff)), sign = hn::ShiftLeft<16>(hn::And(v, set(0x8000)));
  const auto special = above(size, 0x7bff);
  const VU base = hn::IfThenElse(special, set(0x70000000), set(0x38000000));
  const VU quiet = hn::IfThenElseZero(above(size, 0x7c00), set(0x400000));
  const VU normal = hn::Or(hn::Add(hn::ShiftLeft<13>(size), base), quiet);
  const VU small = hn::BitCast(
      U32(), hn::Mul(hn::ConvertTo(F32(), hn::BitCast(I32(), size)), hn::Set(F32(), 0x1p-24f)));
  return hn::Or(sign, hn::IfThenElse(above(size, 0x3ff), normal, small));
}

HWY_INLINE VU f16_bits(VU bits) {
  const VU size = hn::And(bits, set(0x7fffffff));
  const VU nan = hn::Or(set(0x7e00), hn::And(hn::ShiftRight<13>(size), set(0x3ff)));
  const VU odd = hn::And(hn::ShiftRight<13>(size), set(1));
  const VU normal =
      hn::ShiftRight<13>(hn::Add(hn::Sub(size, set(0x38000000)), hn::Add(odd, set(0xfff))));
  const VU small = hn::Sub(
      hn::BitCast(U32(), hn::Add(hn::BitCast(F32(), size), hn::Set(F32(), 0.5f))), set(0x3f000000));
  const VU finite = hn::IfThenElse(above(size, 0x387fffff), normal, small);
  const VU large = hn::IfThenElse(above(size, 0x7f800000), nan, set(0x7c00));
  const VU sign = hn::And(hn::ShiftRight<16>(bits), set(0x8000));
  return hn::Or(sign, hn::IfThenElse(above(size, 0x477fefff), large, finite));
}

template <class Vectors, class One>
HWY_INLINE void widen(const uint16_t* from, float* to, int64_t n, const Vectors& vectors,
                      const One& one) {
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) {
    const VU bits = vectors(hn::PromoteTo(U32(), hn::LoadU(U16(), from + i)));
    hn::StoreU(hn::BitCast(F32(), bits), F32(), to + i);
  }
  for (; i < n; ++i) to[i] = one(from[i]);
}

template <class Vectors, class One>
HWY_INLINE void narrow(const float* from, uint16_t* to, int64_t n, const Vectors& vectors,
                       const One& one) {
  const hn::Rebind<int32_t, F32> signed_bits;
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) {
    const VU bits = vectors(hn::BitCast(U32(), hn::LoadU(F32(), from + i)));
    // Below 2^16, so that saturation never acts.
    hn::StoreU(hn::DemoteTo(U16(), hn::BitCast(signed_bits, bits)), U16(), to + i);
  }
  for (; i < n; ++i) to[i] = one(from[i]);
}

}  // namespace

void widen_bf16(const uint16_t* from, float* to, int64_t n) {
  widen(
      from, to, n, [](VU v) HWY_ATTR { return hn::ShiftLeft<16>(v); }, kit::from_bf16);
}
void widen_f16(const uint16_t* from, float* to, int64_t n) {
  widen(
      from, to, n, [](VU v) HWY_ATTR { return f16_to_f32_bits(v); }, kit::from_f16);
}
void narrow_bf16(const float* from, uint16_t* to, int64_t n) {
  narrow(
      from, to, n, [](VU v) HWY_ATTR { return bf16_bits(v); }, kit::to_bf16);
}
void narrow_f16(const float* from, uint16_t* to, int64_t n) {
  narrow(
      from, to, n, [](VU v) HWY_ATTR { return f16_bits(v); }, kit::to_f16);
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <plait/op.h>

#include "plugins/devices/cpu/half/convert.hpp"
#include "plugins/devices/cpu/kernels/simd.hpp"

namespace plait::cpu {

HWY_EXPORT(widen_bf16);
HWY_EXPORT(widen_f16);
HWY_EXPORT(narrow_bf16);
HWY_EXPORT(narrow_f16);

WidenFunction widen_function(uint32_t dtype) {
  return dtype == PLAIT_F16 ? PLAIT_PICK(widen_f16) : PLAIT_PICK(widen_bf16);
}
NarrowFunction narrow_function(uint32_t dtype) {
  return dtype == PLAIT_F16 ? PLAIT_PICK(narrow_f16) : PLAIT_PICK(narrow_bf16);
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
