// What attention on bf16 and its gradient share in vectors: rows into scratch, pairs, powers of 2.
// Compiled once per instruction set, inside HWY_NAMESPACE.
#if defined(PLAIT_CPU_ATTENTION_BF16_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_ATTENTION_BF16_INL
#undef PLAIT_CPU_ATTENTION_BF16_INL
#else
#define PLAIT_CPU_ATTENTION_BF16_INL
#endif

#include <cstring>

#include "plugins/devices/cpu/half/bf16-inl.hpp"
#include "plugins/devices/cpu/kernels/attention-inl.hpp"
#include "plugins/devices/cpu/kernels/attention_bf16_args.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

constexpr float kLog2E = 1.44269504088896341f;

// A block of rows of n, `distance` apart: `rows` of them, and zeros up to (block, depth).
HWY_INLINE void gather_rows(const uint16_t* from, int64_t distance, int64_t rows, int64_t n,
                            int64_t depth, const Block16& to) {
  const auto bytes = [](int64_t elements) { return static_cast<size_t>(elements) * 2; };
  for (int64_t r = 0; r < rows; ++r) {
    uint16_t* row = to.at + r * to.row;
    std::memcpy(row, from + r * distance, bytes(n));
    std::memset(row + n, 0, bytes(depth - n));
  }
  for (int64_t r = rows; r < kKeyBlock; ++r) std::memset(to.at + r * to.row, 0, bytes(depth));
}

// to (depth/2, rows) pairs along the depth, of a whole block (rows, depth).
HWY_INLINE void pair_columns(const Block16& from, int64_t depth, const Block16& to) {
  transpose_rows(reinterpret_cast<const float*>(from.at), from.row / 2, kKeyBlock, depth / 2,
                 {reinterpret_cast<float*>(to.at), to.row / 2});
}
// to (rows/2, depth) pairs along the rows, of a whole block (rows, depth).
HWY_INLINE void pair_block(const Block16& from, int64_t depth, const Block16& to) {
  for (int64_t r = 0; r < kKeyBlock; r += 2)
    pair_rows(from.at + r * from.row, from.at + (r + 1) * from.row, to.at + r / 2 * to.row, depth);
}
// to (depth, rows): the block behind pairs (depth/2, rows).
HWY_INLINE void part_columns(const Block16& from, int64_t depth, const Block16& to) {
  for (int64_t p = 0; p < depth / 2; ++p)
    for (int64_t j = 0; j < kKeyBlock; j += lanes()) {
      const VB pairs =
          hn::LoadU(B32(), reinterpret_cast<const uint32_t*>(from.at + p * from.row + 2 * j));
      uint16_t* low = to.at + 2 * p * to.row + j;
      store_bf16(hn::And(pairs, hn::Set(B32(), 0xffff)), low);
      store_bf16(hn::ShiftRight<16>(pairs), low + to.row);
    }
}

// 2^x within 3 ulp for x < 128; below 2^-126 the result is 0. NaN propagates, if Max() returns its
// second operand for one, as on x86.
HWY_INLINE VF exp2(VF x) {
  const F32 d;
  const I32 di;
  const VF y = hn::Max(hn::Set(d, -127.0f), x), n = hn::Round(y), r = hn::Sub(y, n);
  VF p = hn::MulAdd(hn::Set(d, 1.535336188e-4f), r, hn::Set(d, 1.339887440e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 9.618437357e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.550332471e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 2.402264791e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 6.931472029e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto bits = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::Mul(p, hn::BitCast(d, bits));
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PLAIT_CPU_ATTENTION_BF16_INL
