// Natural logarithm of f32 vectors; NaN propagates. Compiled once per instruction set, inside
// HWY_NAMESPACE.
#if defined(PLAIT_CPU_SIMD_LOG_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_SIMD_LOG_INL
#undef PLAIT_CPU_SIMD_LOG_INL
#else
#define PLAIT_CPU_SIMD_LOG_INL
#endif

#include <hwy/contrib/math/math-inl.h>

#include "plugins/devices/cpu/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

// log(0) is -inf.
HWY_INLINE VF log(VF x) {
  const F32 d;
  const VF y = hn::IfThenElse(hn::IsNaN(x), x, hn::Log(d, x));
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -std::numeric_limits<float>::infinity()),
                        y);
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PLAIT_CPU_SIMD_LOG_INL
