// dot_product_attention on bf16, with the processor's products of bf16. The algorithm is that of
// attention.cpp; scores, their sums and the output are f32 until the end, weights are rounded to
// bf16 for their product with the values.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/attention_bf16.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "plugins/devices/cpu/kernels/attention_bf16-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

// The pairs of one block.
Block16 keys_of(const HalfScratch& s, int64_t block) {
  return {s.keys.at + block * s.d / 2 * s.keys.row, s.keys.row};
}
Block16 values_of(const HalfScratch& s, int64_t block) {
  return {s.values.at + block * kKeyBlock / 2 * s.values.row, s.values.row};
}

void pack(const AttentionArgs& x, int64_t sample, int64_t group, int64_t block, HalfScratch& s) {
  const int64_t first = block * kKeyBlock, rows = std::min(kKeyBlock, x.a.keys - first),
                at = x.key_row(sample, first, group), qk = x.a.qk, value = x.a.value;
  gather_rows(x.k16 + at * qk, x.a.groups * qk, rows, qk, s.d, s.rows);
  pair_columns(s.rows, s.d, keys_of(s, block));
  gather_rows(x.v16 + at * value, x.a.groups * value, rows, value, s.e, s.rows);
  pair_block(s.rows, s.e, values_of(s, block));
  s.packed[block] = 1;
}

// The scores of a row, which are in front of `scale` and the cap, become factor * score.
HWY_INLINE float scale_scores(const AttentionArgs& x, float* s, int64_t columns) {
  const F32 d;
  const auto scale = static_cast<float>(x.a.scale);
  if (x.a.softcap > 0) {
    const VF cap = hn::Set(d, static_cast<float>(x.a.softcap)),
             inner = hn::Set(d, static_cast<float>(x.a.scale / x.a.softcap));
    for (int64_t j = 0; j < columns; j += lanes())
      hn::StoreU(hn::Mul(cap, tanh(hn::Mul(inner, hn::LoadU(d, s + j)))), d, s + j);
    return 1;
  }
  if (scale > 0) return scale;
  scale_row(s, hn::Set(d, scale), columns);  // the greatest score is another one
  return 1;
}

// As weigh_row() of attention-inl.hpp; the weights go to p in bf16. `kept`: null, or their factors.
HWY_INLINE void weigh_half_row(const AttentionArgs& x, float* s, int64_t columns,
                               const kit::KeyRange& seen, const float* kept, uint16_t* p,
                               float& most, float& sum, float* o, int64_t padded) {
  const F32 d;
  const float factor = scale_scores(x, s, columns);
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  std::fill(s, s + seen.begin, kLeast);
  std::fill(s + seen.end, s + columns, kLeast);
  const VF before = hn::Set(d, most),
           now = hn::Max(before, hn::Mul(hn::Set(d, factor), row_max(s, columns)));
  // Nothing seen so far: exp(-inf - 0) is 0, where -inf + inf would not be.
  const VF shift = hn::IfThenZeroElse(hn::Eq(now, hn::Set(d, kLeast)), now);
  const VF slope = hn::Set(d, factor * kLog2E), base = hn::Mul(shift, hn::Set(d, kLog2E));
  VF add = hn::Zero(d);
  for (int64_t j = 0; j < columns; j += lanes()) {
    VF w = exp2(hn::MulSub(slope, hn::LoadU(d, s + j), base));
    add = hn::Add(add, w);
    if (kept) w = hn::Mul(w, hn::LoadU(d, kept + j));
    store_bf16(bf16_of(w), p + j);
  }
  const VF fade = exp2(hn::Mul(hn::Sub(before, shift), hn::Set(d, kLog2E)));
  sum = sum * hn::GetLane(fade) + sum_lanes(add);
  if (hn::GetLane(now) != most) scale_row(o, fade, padded);
  most = hn::GetLane(now);
}

// One block of queries of one head.
void attend(const AttentionArgs& x, int64_t sample, int64_t group, int64_t head, int64_t first,
            HalfScratch& s) {
  const int64_t rows = std::min(kQueryBlock, x.a.queries - first), value = x.a.value;
  const kit::KeyRange* ranges = x.ranges + sample * x.ranges_stride;
  const kit::KeyRange all = keys_of_block(ranges, first, first + rows);
  const int64_t token = sample * x.a.queries + first;
  gather_rows(x.q16 + (token * x.a.heads + head) * x.a.qk, x.a.heads * x.a.qk, rows, x.a.qk, s.d,
              s.q);
  std::fill_n(s.o.at, kQueryBlock * s.o.row, 0.0f);
  std::fill_n(s.p.at, kQueryBlock * s.p.row, uint16_t{0});
  std::fill_n(s.most, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(s.sum, rows, 0.0f);
  const int64_t whole = (rows + kBlockRows - 1) / kBlockRows * kBlockRows;
  for (int64_t block = all.begin / kKeyBlock; block * kKeyBlock < all.end; ++block) {
    const int64_t key = block * kKeyBlock, depth = std::min(kKeyBlock, all.end - key),
                  columns = padded_depth(depth);
    if (s.packed[block] == 0) pack(x, sample, group, block, s);
    x.products->multiply(s.q, keys_of(s, block), s.s, whole, columns, s.d, false);
    for (int64_t r = 0; r < rows; ++r) {
      float kept[kKeyBlock] = {};
      if (x.a.dropout > 0) dropout_row(x, sample, head, first + r, key, depth, kept);
      weigh_half_row(x, s.s.at + r * s.s.row, columns, inside(ranges[first + r], key, depth),
                     x.a.dropout > 0 ? kept : nullptr, s.p.at + r * s.p.row, s.most[r], s.sum[r],
                     s.o.at + r * s.o.row, s.e);
    }
    x.products->multiply(s.p, values_of(s, block), s.o, whole, s.e, columns, true);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const float sum = s.sum[r], most = s.most[r];
    const bool sees = ranges[first + r].begin < ranges[first + r].end;
    narrow_row(s.o.at + r * s.o.row, sees ? 1 / sum : 0,
               x.out16 + ((token + r) * x.a.heads + head) * value, value);
    x.out_lse[(sample * x.a.heads + head) * x.a.queries + first + r] = lse_of(sees, most, sum);
  }
}

}  // namespace

// See for_units().
void attention_bf16_units(const AttentionArgs& x, float* memory, int64_t first, int64_t last) {
  HalfScratch s(x, ScratchParts(memory));
  const InBlockProducts using_them(*x.products);
  for_units(x, s.packed, first, last,
            [&](int64_t sample, int64_t group, int64_t head, int64_t query)
                HWY_ATTR { attend(x, sample, group, head, query, s); });
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "plugins/devices/cpu/kernels/attention_bf16_kernel.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(attention_bf16_units);

struct Forward {
  static constexpr int kProducts = 2;
  static bool takes(const plait_op_desc& d, std::string& why) { return all_bf16_but_lse(d, why); }
  static std::string how() { return how_bf16(); }
  static kit::Attention parse(const plait_op_desc& d) { return kit::parse_attention(d); }
  static int64_t floats(const AttentionArgs& x) {
    return HalfScratch(x, ScratchParts(nullptr)).floats;
  }
  static int64_t units(const AttentionArgs& x) {
    return x.a.samples * x.a.groups * x.query_blocks();
  }
  static void bind(AttentionArgs& x, void* const* in, void* const* out) {
    const auto bf16 = [](void* p) { return static_cast<uint16_t*>(p); };
    x.q16 = bf16(in[0]), x.k16 = bf16(in[1]), x.v16 = bf16(in[2]);
    x.out16 = bf16(out[0]), x.out_lse = static_cast<float*>(out[1]);
    x.products = &block_products();
  }
  static AttentionUnits pick() { return PLAIT_PICK(attention_bf16_units); }
};

}  // namespace

void add_attention_bf16(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuAttention<Forward>>("bf16", "dot_product_attention", kDevice,
                                              kBlockProductsPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
