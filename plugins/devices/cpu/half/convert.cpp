// The bit patterns are those of kit/half.hpp, written for vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/half/convert.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "plugins/devices/cpu/half/bf16-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE VB set(uint32_t v) { return hn::Set(B32(), v); }

// Whether a > b, of numbers below 2^31.
HWY_INLINE auto above(VB a, uint32_t b) {
  return hn::RebindMask(B32(),
                        hn::Gt(hn::BitCast(I32(), a), hn::Set(I32(), static_cast<int32_t>(b))));
}

HWY_INLINE VB f16_to_f32_bits(VB v) {
  const VB size = hn::And(v, set(0x7fff)), sign = hn::ShiftLeft<16>(hn::And(v, set(0x8000)));
  const auto special = above(size, 0x7bff);
  const VB base = hn::IfThenElse(special, set(0x70000000), set(0x38000000));
  const VB quiet = hn::IfThenElseZero(above(size, 0x7c00), set(0x400000));
  const VB normal = hn::Or(hn::Add(hn::ShiftLeft<13>(size), base), quiet);
  const VB small = hn::BitCast(
      B32(), hn::Mul(hn::ConvertTo(F32(), hn::BitCast(I32(), size)), hn::Set(F32(), 0x1p-24f)));
  return hn::Or(sign, hn::IfThenElse(above(size, 0x3ff), normal, small));
}

HWY_INLINE VB f16_bits(VB bits) {
  const VB size = hn::And(bits, set(0x7fffffff));
  const VB nan = hn::Or(set(0x7e00), hn::And(hn::ShiftRight<13>(size), set(0x3ff)));
  const VB odd = hn::And(hn::ShiftRight<13>(size), set(1));
  const VB normal =
      hn::ShiftRight<13>(hn::Add(hn::Sub(size, set(0x38000000)), hn::Add(odd, set(0xfff))));
  const VB small = hn::Sub(
      hn::BitCast(B32(), hn::Add(hn::BitCast(F32(), size), hn::Set(F32(), 0.5f))), set(0x3f000000));
  const VB finite = hn::IfThenElse(above(size, 0x387fffff), normal, small);
  const VB large = hn::IfThenElse(above(size, 0x7f800000), nan, set(0x7c00));
  const VB sign = hn::And(hn::ShiftRight<16>(bits), set(0x8000));
  return hn::Or(sign, hn::IfThenElse(above(size, 0x477fefff), large, finite));
}

template <class Vectors, class One>
HWY_INLINE void widen(const uint16_t* from, float* to, int64_t n, const Vectors& vectors,
                      const One& one) {
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) {
    const VB bits = vectors(hn::PromoteTo(B32(), hn::LoadU(B16(), from + i)));
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
    const VB bits = vectors(hn::BitCast(B32(), hn::LoadU(F32(), from + i)));
    // Below 2^16, so that saturation never acts.
    hn::StoreU(hn::DemoteTo(B16(), hn::BitCast(signed_bits, bits)), B16(), to + i);
  }
  for (; i < n; ++i) to[i] = one(from[i]);
}

}  // namespace

void widen_bf16(const uint16_t* from, float* to, int64_t n) {
  widen(
      from, to, n, [](VB v) HWY_ATTR { return hn::ShiftLeft<16>(v); }, kit::from_bf16);
}
void widen_f16(const uint16_t* from, float* to, int64_t n) {
  widen(
      from, to, n, [](VB v) HWY_ATTR { return f16_to_f32_bits(v); }, kit::from_f16);
}
void narrow_bf16(const float* from, uint16_t* to, int64_t n) {
  narrow(
      from, to, n, [](VB v) HWY_ATTR { return bf16_bits(v); }, kit::to_bf16);
}
void narrow_f16(const float* from, uint16_t* to, int64_t n) {
  narrow(
      from, to, n, [](VB v) HWY_ATTR { return f16_bits(v); }, kit::to_f16);
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
