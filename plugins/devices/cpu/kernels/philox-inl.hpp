// Philox (kit/philox.hpp) in vectors, one block per 64-bit lane. Compiled once per instruction set,
// inside HWY_NAMESPACE.
#if defined(PLAIT_CPU_PHILOX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_PHILOX_INL
#undef PLAIT_CPU_PHILOX_INL
#else
#define PLAIT_CPU_PHILOX_INL
#endif

#include "kit/philox.hpp"
#include "plugins/devices/cpu/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

using U64 = hn::CappedTag<uint64_t, 8>;
using VU = hn::Vec<U64>;

// 32-bit factors in the low halves; the upper halves of the operands are not looked at.
HWY_INLINE VU product32(VU a, VU b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(U64(), (hn::GetLane(a) & 0xffffffffu) * (hn::GetLane(b) & 0xffffffffu));
#else
  const hn::Repartition<uint32_t, U64> d;
  return hn::MulEven(hn::BitCast(d, a), hn::BitCast(d, b));
#endif
}

// words[4 * i + w] = word w of block (first + i, high, step, stream), i in [0, blocks); blocks is a
// multiple of the lanes of U64. A negative `high` stands for the high half of the block's own
// number.
inline void philox_words(uint64_t first, int64_t high, uint32_t step, uint32_t stream,
                         uint32_t key0, uint32_t key1, int64_t blocks, uint32_t* words) {
  const U64 d;
  const auto w = static_cast<int64_t>(hn::Lanes(d));
  const VU low = hn::Set(d, 0xffffffffu);
  const VU m0 = hn::Set(d, kit::kPhiloxMul0), m1 = hn::Set(d, kit::kPhiloxMul1);
  uint64_t keys[2 * kit::kPhiloxRounds];
  for (uint32_t round = 0; round < kit::kPhiloxRounds; ++round) {
    keys[2 * round] = static_cast<uint32_t>(key0 + round * kit::kPhiloxKey0);
    keys[2 * round + 1] = static_cast<uint32_t>(key1 + round * kit::kPhiloxKey1);
  }
  // The upper halves of the lanes hold rubbish until the end: products don't look at them.
  for (int64_t i = 0; i < blocks; i += w) {
    const VU q = hn::Iota(d, first + static_cast<uint64_t>(i));
    VU c0 = q, c1 = high < 0 ? hn::ShiftRight<32>(q) : hn::Set(d, static_cast<uint64_t>(high));
    VU c2 = hn::Set(d, step), c3 = hn::Set(d, stream);
    for (int round = 0; round < kit::kPhiloxRounds; ++round) {
      const VU a = product32(m0, c0), b = product32(m1, c2);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c1), hn::Set(d, keys[2 * round]));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c3), hn::Set(d, keys[2 * round + 1]));
      c1 = b;
      c3 = a;
    }
    c0 = hn::And(c0, low);
    c2 = hn::And(c2, low);
    // Words 0 and 1, and 2 and 3, side by side in one lane each; then pairs in turn.
    const VU even = hn::Or(c0, hn::ShiftLeft<32>(c1)), odd = hn::Or(c2, hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(even, odd, d, reinterpret_cast<uint64_t*>(words + 4 * i));
  }
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PLAIT_CPU_PHILOX_INL
