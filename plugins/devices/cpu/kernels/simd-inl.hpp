// Vectors of f32: partial loads, lane sums, exp. Compiled once per instruction set, inside
// HWY_NAMESPACE.
#if defined(PLAIT_CPU_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_SIMD_INL
#undef PLAIT_CPU_SIMD_INL
#else
#define PLAIT_CPU_SIMD_INL
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
// At most 16 lanes, on machines with wider vectors, too: scratch is padded to that.
using F32 = hn::CappedTag<float, 16>;
using I32 = hn::CappedTag<int32_t, 16>;
using VF = hn::Vec<F32>;

// Elements per vector.
HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(F32())); }

// Loads the first n (0 < n < lanes) elements, with `rest` in the other lanes. Never touches memory
// beyond them.
HWY_INLINE VF load_n(const float* p, int64_t n, VF rest) {
  const F32 d;
  const auto mask = hn::FirstN(d, static_cast<size_t>(n));
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), rest);
#else
  HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)] = {};
  for (int64_t i = 0; i < n; ++i) buffer[i] = p[i];
  return hn::IfThenElse(mask, hn::Load(d, buffer), rest);
#endif
}
HWY_INLINE VF load_n(const float* p, int64_t n) { return load_n(p, n, hn::Zero(F32())); }

HWY_INLINE void store_n(VF v, float* p, int64_t n) {
  const F32 d;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, p);
#else
  HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, buffer);
  for (int64_t i = 0; i < n; ++i) p[i] = buffer[i];
#endif
}

HWY_INLINE float sum_lanes(VF v) { return hn::GetLane(hn::SumOfLanes(F32(), v)); }

// acc = f(acc, vector) over row[0, n), with `rest` in lanes beyond the end; two accumulators hide
// the latency of f.
template <class F>
HWY_INLINE VF fold(const float* row, int64_t n, VF initial, VF rest, const F& f) {
  const F32 d;
  const int64_t w = lanes();
  VF a = initial, b = initial;
  int64_t i = 0;
  for (; i + 2 * w <= n; i += 2 * w) {
    a = f(a, hn::LoadU(d, row + i));
    b = f(b, hn::LoadU(d, row + i + w));
  }
  if (i + w <= n) {
    a = f(a, hn::LoadU(d, row + i));
    i += w;
  }
  if (i < n) b = f(b, load_n(row + i, n - i, rest));
  return f.join(a, b);
}

struct Max {
  HWY_INLINE VF operator()(VF acc, VF x) const { return hn::Max(x, acc); }
  HWY_INLINE VF join(VF a, VF b) const { return hn::Max(a, b); }
};

// The largest element; -inf if there is none. A NaN may or may not propagate.
HWY_INLINE VF row_max(const float* row, int64_t n) {
  const VF least = hn::Set(F32(), -std::numeric_limits<float>::infinity());
  return hn::MaxOfLanes(F32(), fold(row, n, least, least, Max()));
}

// e^x within 2 ulp; below 2.7e-38 the result is 0, because subnormals are slow. NaN propagates.
HWY_INLINE VF exp(VF x) {
  const F32 d;
  const I32 di;
  const VF low = hn::Set(d, -86.5f);
  const VF y = hn::Min(hn::Max(x, low), hn::Set(d, 89.0f));
  const VF n = hn::Round(hn::Mul(y, hn::Set(d, 1.44269504088896341f)));
  VF r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), y);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  VF p = hn::MulAdd(hn::Set(d, 1.9875691500e-4f), r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  // 2^(n-1), then doubled: n reaches 128, and 2^128 is not an f32.
  const auto exponent = hn::Add(hn::ConvertTo(di, n), hn::Set(di, 126));
  const VF scaled = hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
  const VF e = hn::IfThenZeroElse(hn::Lt(x, low), hn::Add(scaled, scaled));
  return hn::IfThenElse(hn::IsNaN(x), x, e);
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PLAIT_CPU_SIMD_INL
