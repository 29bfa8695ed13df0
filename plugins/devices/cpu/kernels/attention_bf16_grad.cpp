// dot_product_attention_grad on bf16, with the processor's products of bf16: FlashAttention-2
// (arXiv:2307.08691), algorithm 2, with the loop over queries outside, so that a block of queries
// is packed once and dq adds up in the scratch of one block. A thread has all query heads of a
// sample and key head, so that dk and dv add up in its scratch.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/attention_bf16_grad.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "plugins/devices/cpu/kernels/attention_bf16-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

// Rows from `first` on.
Block16 from_row(const Block16& m, int64_t first) { return {m.at + first * m.row, m.row}; }
Block32 from_row(const Block32& m, int64_t first) { return {m.at + first * m.row, m.row}; }

// All keys and values of a sample and key head, and sums of 0.
void pack_keys(const AttentionArgs& x, int64_t sample, int64_t group, HalfGradScratch& s) {
  const int64_t qk = x.a.qk, value = x.a.value;
  for (int64_t block = 0; block < x.key_blocks(); ++block) {
    const int64_t first = block * kKeyBlock, rows = std::min(kKeyBlock, x.a.keys - first),
                  at = x.key_row(sample, first, group);
    const Block16 k = from_row(s.k, first);
    gather_rows(x.k16 + at * qk, x.a.groups * qk, rows, qk, s.d, k);
    pair_columns(k, s.d, s.q_columns);  // not yet in use
    part_columns(s.q_columns, s.d, from_row(s.kt, block * s.d));
    gather_rows(x.v16 + at * value, x.a.groups * value, rows, value, s.e, from_row(s.v, first));
  }
  std::fill_n(s.dk.at, x.key_blocks() * kKeyBlock * s.dk.row, 0.0f);
  std::fill_n(s.dv.at, x.key_blocks() * kKeyBlock * s.dv.row, 0.0f);
}

HWY_INLINE float dot_half_row(const uint16_t* a, const uint16_t* b, int64_t n) {
  const F32 d;
  VF sum = hn::Zero(d);
  int64_t j = 0;
  for (; j + lanes() <= n; j += lanes())
    sum = hn::MulAdd(bf16_to_f32(load_bf16(a + j)), bf16_to_f32(load_bf16(b + j)), sum);
  float rest = 0;
  for (; j < n; ++j) rest += kit::from_bf16(a[j]) * kit::from_bf16(b[j]);
  return sum_lanes(sum) + rest;
}

// A block of queries of one head: first of them, and how many.
struct Queries {
  int64_t sample, head, first, rows;
};

// What the keys need of a block of queries.
void pack_queries(const AttentionArgs& x, const Queries& b, HalfGradScratch& s) {
  const int64_t qk = x.a.qk, value = x.a.value, heads = x.a.heads;
  const int64_t token = (b.sample * x.a.queries + b.first) * heads + b.head;
  gather_rows(x.q16 + token * qk, heads * qk, b.rows, qk, s.d, s.q);
  gather_rows(x.d_o16 + token * value, heads * value, b.rows, value, s.e, s.d_o);
  pair_columns(s.q, s.d, s.q_columns);
  pair_columns(s.d_o, s.e, s.do_columns);
  pair_block(s.q, s.d, s.q_rows);
  pair_block(s.d_o, s.e, s.do_rows);
  std::fill_n(s.dqt.at, s.d * s.dqt.row, 0.0f);
  const kit::KeyRange* ranges = x.ranges + b.sample * x.ranges_stride;
  const float* lse = x.lse + (b.sample * heads + b.head) * x.a.queries + b.first;
  for (int64_t r = 0; r < kQueryBlock; ++r) {
    const bool real = r < b.rows;
    const kit::KeyRange keys = real ? ranges[b.first + r] : kit::KeyRange{};
    s.begin[r] = static_cast<int32_t>(std::min<int64_t>(keys.begin, x.a.keys));
    s.end[r] = static_cast<int32_t>(std::min<int64_t>(keys.end, x.a.keys));
    s.lse[r] = real ? lse[r] * kLog2E : 0;
    s.mean[r] = real ? dot_half_row(x.o16 + (token + r * heads) * value,
                                    x.d_o16 + (token + r * heads) * value, value)
                     : 0;
  }
}

// The factors of dropout of a block: (keys, queries).
void drop_block(const AttentionArgs& x, const Queries& b, int64_t key, int64_t depth,
                HalfGradScratch& s) {
  const Block32 by_query = from_row(s.kept, kKeyBlock);
  std::fill_n(by_query.at, kQueryBlock * by_query.row, 0.0f);
  for (int64_t r = 0; r < b.rows; ++r)
    dropout_row(x, b.sample, b.head, b.first + r, key, depth, by_query.at + r * by_query.row);
  transpose_rows(by_query.at, by_query.row, kQueryBlock, kKeyBlock, {s.kept.at, s.kept.row});
}

// Of one key and a vector of queries: the weight, with dropout, and dS with the scale.
struct Graded {
  VB weight, slope;
};

// kMasked: some queries do not see all keys of the block.
template <bool kMasked>
HWY_INLINE Graded grade(const AttentionArgs& x, const HalfGradScratch& s, int64_t key, int64_t row,
                        int64_t j) {
  const F32 d;
  const I32 di;
  const VF scale = hn::Set(d, static_cast<float>(x.a.scale));
  VF score = hn::LoadU(d, s.s.at + row * s.s.row + j), slope = scale;
  if (x.a.softcap > 0) {
    const VF t = tanh(hn::Mul(hn::Set(d, static_cast<float>(x.a.scale / x.a.softcap)), score));
    score = hn::Mul(hn::Set(d, static_cast<float>(x.a.softcap)), t);
    slope = hn::Mul(scale, hn::NegMulAdd(t, t, hn::Set(d, 1.0f)));
  } else {
    score = hn::Mul(score, scale);
  }
  VF weight = exp2(hn::MulSub(hn::Set(d, kLog2E), score, hn::LoadU(d, s.lse + j)));
  VF given = hn::LoadU(d, s.dp.at + row * s.dp.row + j), used = weight;
  if (x.a.dropout > 0) {
    const VF z = hn::LoadU(d, s.kept.at + row * s.kept.row + j);
    given = hn::Mul(given, z);
    used = hn::Mul(used, z);
  }
  VF ds = hn::Mul(hn::Mul(weight, slope), hn::Sub(given, hn::LoadU(d, s.mean + j)));
  if constexpr (kMasked) {
    const auto k = hn::Set(di, static_cast<int32_t>(key + row));
    const auto seen = hn::And(hn::Not(hn::Lt(k, hn::LoadU(di, s.begin + j))),
                              hn::Lt(k, hn::LoadU(di, s.end + j)));
    const auto mask = hn::RebindMask(d, seen);
    used = hn::IfThenElseZero(mask, used);
    ds = hn::IfThenElseZero(mask, ds);
  }
  return {bf16_of(used), bf16_of(ds)};
}

// Scores s and do.v (dp) of `depth` keys become p, ds and ds_rows.
template <bool kMasked>
void grade_block(const AttentionArgs& x, int64_t key, int64_t depth, HalfGradScratch& s) {
  for (int64_t row = 0; row < depth; row += 2)
    for (int64_t j = 0; j < kQueryBlock; j += lanes()) {
      const Graded low = grade<kMasked>(x, s, key, row, j),
                   high = grade<kMasked>(x, s, key, row + 1, j);
      store_bf16(low.weight, s.p.at + row * s.p.row + j);
      store_bf16(high.weight, s.p.at + (row + 1) * s.p.row + j);
      store_bf16(low.slope, s.ds.at + row * s.ds.row + j);
      store_bf16(high.slope, s.ds.at + (row + 1) * s.ds.row + j);
      hn::StoreU(hn::Or(low.slope, hn::ShiftLeft<16>(high.slope)), B32(),
                 reinterpret_cast<uint32_t*>(s.ds_rows.at + row / 2 * s.ds_rows.row + 2 * j));
    }
}

// One block of queries against the keys [key, key + depth) of one block.
void add_block(const AttentionArgs& x, const Queries& b, int64_t key, int64_t depth,
               HalfGradScratch& s) {
  const BlockProduct multiply = x.products->multiply;
  const int64_t keys = padded_depth(depth);
  multiply(from_row(s.k, key), s.q_columns, s.s, keys, kQueryBlock, s.d, false);
  multiply(from_row(s.v, key), s.do_columns, s.dp, keys, kQueryBlock, s.e, false);
  if (x.a.dropout > 0) drop_block(x, b, key, depth, s);
  bool all_seen = depth == keys && b.rows == kQueryBlock;
  for (int64_t r = 0; r < b.rows; ++r)
    all_seen = all_seen && s.begin[r] <= key && s.end[r] >= key + depth;
  all_seen ? grade_block<false>(x, key, keys, s) : grade_block<true>(x, key, keys, s);
  multiply(s.p, s.do_rows, from_row(s.dv, key), keys, s.e, kQueryBlock, true);
  multiply(s.ds, s.q_rows, from_row(s.dk, key), keys, s.d, kQueryBlock, true);
  multiply(from_row(s.kt, key / kKeyBlock * s.d), s.ds_rows, s.dqt, s.d, kQueryBlock, keys, true);
}

void add_queries(const AttentionArgs& x, const Queries& b, HalfGradScratch& s) {
  const kit::KeyRange* ranges = x.ranges + b.sample * x.ranges_stride;
  const kit::KeyRange all = keys_of_block(ranges, b.first, b.first + b.rows);
  pack_queries(x, b, s);
  for (int64_t block = all.begin / kKeyBlock; block * kKeyBlock < all.end; ++block)
    add_block(x, b, block * kKeyBlock, std::min(kKeyBlock, all.end - block * kKeyBlock), s);
  for (int64_t first = 0; first < x.a.qk; first += kKeyBlock)
    transpose_rows(s.dqt.at + first * s.dqt.row, s.dqt.row, std::min(kKeyBlock, s.d - first),
                   kQueryBlock, {s.dq.at + first, s.dq.row});
  const int64_t token = (b.sample * x.a.queries + b.first) * x.a.heads + b.head;
  for (int64_t r = 0; r < b.rows; ++r)
    narrow_row(s.dq.at + r * s.dq.row, 1, x.dq16 + (token + r * x.a.heads) * x.a.qk, x.a.qk);
}

}  // namespace

// Units [first, last): key heads of samples.
void attention_bf16_grad_units(const AttentionArgs& x, float* memory, int64_t first, int64_t last) {
  HalfGradScratch s(x, ScratchParts(memory));
  const InBlockProducts using_them(*x.products);
  for (int64_t i = first; i < last; ++i) {
    const int64_t sample = i / x.a.groups, group = i % x.a.groups;
    pack_keys(x, sample, group, s);
    for (int64_t h = 0; h < x.a.heads; ++h) {
      if (x.a.group_of(h) != group) continue;
      for (int64_t t = 0; t < x.a.queries; t += kQueryBlock)
        add_queries(x, {sample, h, t, std::min(kQueryBlock, x.a.queries - t)}, s);
    }
    for (int64_t key = 0; key < x.a.keys; ++key) {
      const int64_t at = x.key_row(sample, key, group);
      narrow_row(s.dk.at + key * s.dk.row, 1, x.dk16 + at * x.a.qk, x.a.qk);
      narrow_row(s.dv.at + key * s.dv.row, 1, x.dv16 + at * x.a.value, x.a.value);
    }
  }
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "plugins/devices/cpu/kernels/attention_bf16_kernel.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(attention_bf16_grad_units);

struct Gradient {
  static constexpr int kProducts = 5;
  static bool takes(const plait_op_desc& d, std::string& why) { return all_bf16_but_lse(d, why); }
  static std::string how() { return how_bf16(); }
  static kit::Attention parse(const plait_op_desc& d) { return kit::parse_attention_grad(d); }
  static int64_t floats(const AttentionArgs& x) {
    return HalfGradScratch(x, ScratchParts(nullptr)).floats;
  }
  static int64_t units(const AttentionArgs& x) { return x.a.samples * x.a.groups; }
  static void bind(AttentionArgs& x, void* const* in, void* const* out) {
    const auto bf16 = [](void* p) { return static_cast<uint16_t*>(p); };
    x.q16 = bf16(in[0]), x.k16 = bf16(in[1]), x.v16 = bf16(in[2]), x.o16 = bf16(in[3]);
    x.lse = static_cast<float*>(in[4]), x.d_o16 = bf16(in[5]);
    x.dq16 = bf16(out[0]), x.dk16 = bf16(out[1]), x.dv16 = bf16(out[2]);
    x.products = &block_products();
  }
  static AttentionUnits pick() { return PLAIT_PICK(attention_bf16_grad_units); }
};

}  // namespace

void add_attention_bf16_grad(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuAttention<Gradient>>("bf16", "dot_product_attention_grad", kDevice,
                                               kBlockProductsPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
