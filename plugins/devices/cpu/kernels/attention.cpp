// dot_product_attention on f32, without a matrix of all scores: Dao 2023, FlashAttention-2
// (arXiv:2307.08691), algorithm 1. One block of queries of a head at a time against the blocks of
// keys that it sees; each row keeps its greatest score and its sum so far, and is divided at the
// end. A thread packs the keys of one sample and key head at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/devices/cpu/kernels/attention.cpp"
#include "plugins/devices/cpu/kernels/simd_targets.hpp"

#include <hwy/foreach_target.h>

#include "plugins/devices/cpu/kernels/attention-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

// The scratch of one thread. Keys are packed when a block of them is first needed.
struct Scratch {
  Scratch(const AttentionArgs& x, float* at) {
    const auto take = [&](int64_t rows, int64_t row) {
      const Matrix m{at, row};
      at += rows * row;
      return m;
    };
    const int64_t keys = row_distance(kKeyBlock), value = row_distance(x.a.value);
    k = take(x.key_blocks() * x.a.qk, keys);
    v = take(x.key_blocks() * kKeyBlock, value);
    q = take(kQueryBlock, x.a.qk);
    s = take(kQueryBlock, keys);
    o = take(kQueryBlock, value);
    most = take(kQueryBlock, 1).at;
    sum = take(kQueryBlock, 1).at;
    packed = take(x.key_blocks(), 1).at;
    wide = at;
  }
  Matrix k, v, q, s, o;  // k: (d, kKeyBlock) for each block
  float *most, *sum;     // (kQueryBlock)
  float* packed;         // (key blocks) 1: the block lies in k and v
  float* wide;           // a block of k, then one of v, where the cache has 16 bits
};

void pack(const AttentionArgs& x, int64_t sample, int64_t group, int64_t block, Scratch& to) {
  const int64_t first = block * kKeyBlock, rows = std::min(kKeyBlock, x.a.keys - first),
                at = x.key_row(sample, first, group);
  const Rows k = rows_of_k(x, at, rows, to.wide),
             v = rows_of_v(x, at, rows, to.wide + x.widened_k());
  transpose_rows(k.at, k.distance, rows, x.a.qk, {to.k.at + block * x.a.qk * to.k.row, to.k.row});
  copy_rows(v.at, v.distance, rows, x.a.value, {to.v.at + first * to.v.row, to.v.row});
  to.packed[block] = 1;
}

// One block of queries of one head.
void attend(const AttentionArgs& x, int64_t sample, int64_t group, int64_t head, int64_t first,
            Scratch& scratch) {
  const int64_t rows = std::min(kQueryBlock, x.a.queries - first), value = x.a.value;
  const kit::KeyRange* ranges = x.ranges + sample * x.ranges_stride;
  const kit::KeyRange all = keys_of_block(ranges, first, first + rows);
  const int64_t token = sample * x.a.queries + first;
  for (int64_t r = 0; r < rows; ++r)
    copy_row(x.q + ((token + r) * x.a.heads + head) * x.a.qk, static_cast<float>(x.a.scale),
             scratch.q.at + r * scratch.q.row, x.a.qk);
  std::fill_n(scratch.o.at, rows * scratch.o.row, 0.0f);
  std::fill_n(scratch.most, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(scratch.sum, rows, 0.0f);
  for (int64_t block = all.begin / kKeyBlock; block * kKeyBlock < all.end; ++block) {
    const int64_t key = block * kKeyBlock, depth = std::min(kKeyBlock, all.end - key),
                  columns = padded_columns(depth);
    if (scratch.packed[block] == 0) pack(x, sample, group, block, scratch);
    multiply<false, false>(scratch.q,
                           {scratch.k.at + block * x.a.qk * scratch.k.row, scratch.k.row},
                           scratch.s, rows, columns, x.a.qk);
    for (int64_t r = 0; r < rows; ++r) {
      float* s = scratch.s.at + r * scratch.s.row;
      weigh_row(x, s, columns, inside(ranges[first + r], key, depth), scratch.most[r],
                scratch.sum[r], scratch.o.at + r * scratch.o.row);
      if (x.a.dropout == 0) continue;
      float kept[kKeyBlock];
      dropout_row(x, sample, head, first + r, key, depth, kept);
      for (int64_t j = 0; j < depth; ++j) s[j] *= kept[j];
    }
    multiply<false, true>(scratch.s, {scratch.v.at + key * scratch.v.row, scratch.v.row}, scratch.o,
                          rows, padded_columns(value), depth);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const float sum = scratch.sum[r], most = scratch.most[r];
    const bool sees = ranges[first + r].begin < ranges[first + r].end;
    copy_row(scratch.o.at + r * scratch.o.row, sees ? 1 / sum : 0,
             x.out + ((token + r) * x.a.heads + head) * value, value);
    if (!x.out_lse) continue;
    x.out_lse[(sample * x.a.heads + head) * x.a.queries + first + r] = lse_of(sees, most, sum);
  }
}

}  // namespace

// See for_units().
void attention_units(const AttentionArgs& x, float* memory, int64_t first, int64_t last) {
  Scratch scratch(x, memory);
  for_units(x, scratch.packed, first, last,
            [&](int64_t sample, int64_t group, int64_t head, int64_t query)
                HWY_ATTR { attend(x, sample, group, head, query, scratch); });
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "plugins/devices/cpu/kernels/attention_kernel.hpp"
#include "plugins/devices/cpu/kernels/widened.hpp"

namespace plait::cpu {
namespace {

HWY_EXPORT(attention_units);

struct Forward {
  static constexpr int kProducts = 2;
  static bool takes(const plait_op_desc& d, std::string& why) { return all_f32(d, why); }
  static std::string how() { return "blocks of scores"; }
  static kit::Attention parse(const plait_op_desc& d) { return kit::parse_attention(d); }
  static int64_t floats(const AttentionArgs& x) { return attention_floats(x); }
  static int64_t units(const AttentionArgs& x) {
    return x.a.samples * x.a.groups * x.query_blocks();
  }
  static void bind(AttentionArgs& x, void* const* in, void* const* out) {
    const auto f32 = [](void* p) { return static_cast<float*>(p); };
    x.q = f32(in[0]), x.k = f32(in[1]), x.v = f32(in[2]);
    x.out = f32(out[0]), x.out_lse = f32(out[1]);
  }
  static AttentionUnits pick() { return attention_by_blocks(); }
};

}  // namespace

AttentionUnits attention_by_blocks() { return PLAIT_PICK(attention_units); }

void add_attention(std::vector<plait_kernel_item>& out) {
  out.push_back(
      kernel<CpuAttention<Forward>>("simd", "dot_product_attention", kDevice, kFastPriority));
  out.push_back(kernel<Widened<CpuAttention<Forward>>>("widened", "dot_product_attention", kDevice,
                                                       kWidenedPriority));
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
