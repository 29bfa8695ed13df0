// Operands and scratch of the attention kernels; a separate header, because the vectorised code is
// compiled several times. Letters as in kit/ops/attention.hpp.
#pragma once

#include "kit/ops/attention.hpp"

namespace plait::cpu {

struct BlockProducts;  // plugins/devices/cpu/half/block_products.hpp

constexpr int64_t kQueryBlock = 64, kKeyBlock = 64;  // queries and keys of one block of scores

// Columns of a matrix in scratch: whole pairs of the widest vectors.
constexpr int64_t padded_columns(int64_t n) { return (n + 31) / 32 * 32; }
// The distance of its rows. One line more keeps rows apart in the sets of the nearest cache.
constexpr int64_t row_distance(int64_t n) { return padded_columns(n) + 16; }

struct AttentionArgs {
  kit::Attention a;
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  const float *o = nullptr, *lse = nullptr, *d_o = nullptr;  // of the gradient
  float *out = nullptr, *out_lse = nullptr;                  // forward
  float *dq = nullptr, *dk = nullptr, *dv = nullptr;
  const kit::KeyRange* ranges = nullptr;  // (B, T), or (T) for all samples
  int64_t ranges_stride = 0;              // of a sample
  // Of a cache: which keys and values are those of a sample, where its ranges are not empty.
  const int64_t* slots = nullptr;
  // Where it has 16-bit floats: k and v in place of those above, and what makes f32 of them.
  const uint16_t *k16 = nullptr, *v16 = nullptr;
  void (*widen)(const uint16_t* from, float* to, int64_t n) = nullptr;
  // Where all operands but lse are bf16: these in place of those above, with k16 and v16.
  const uint16_t *q16 = nullptr, *o16 = nullptr, *d_o16 = nullptr;
  const BlockProducts* products = nullptr;
  uint16_t *out16 = nullptr, *dq16 = nullptr, *dk16 = nullptr, *dv16 = nullptr;
  uint32_t step = 0;  // of dropout
  int64_t first_sample = 0;

  // The row of k and of v, d and e wide, that holds a key of a sample.
  int64_t key_row(int64_t sample, int64_t key, int64_t group) const {
    return ((slots ? slots[sample] : sample) * a.keys + key) * a.groups + group;
  }
  // Floats of scratch for a block of k and of v that were widened.
  int64_t widened_k() const { return widen ? kKeyBlock * a.qk : 0; }
  int64_t widened_v() const { return widen ? kKeyBlock * a.value : 0; }
  int64_t query_blocks() const { return (a.queries + kQueryBlock - 1) / kQueryBlock; }
  int64_t key_blocks() const { return (a.keys + kKeyBlock - 1) / kKeyBlock; }
};

// Computes units [first, last) with one thread's scratch.
using AttentionUnits = void (*)(const AttentionArgs&, float* scratch, int64_t first, int64_t last);

// dot_product_attention by blocks, for this machine: units are blocks of queries, in the order of
// samples, key heads, blocks. out_lse may be null.
AttentionUnits attention_by_blocks();

// Floats of scratch that one thread needs.
inline int64_t attention_floats(const AttentionArgs& x) {
  const int64_t packed = x.a.qk * row_distance(kKeyBlock) + kKeyBlock * row_distance(x.a.value);
  return x.key_blocks() * (packed + 1) + x.widened_k() + x.widened_v() +
         kQueryBlock * (x.a.qk + row_distance(kKeyBlock) + row_distance(x.a.value) + 2);
}
inline int64_t attention_grad_floats(const AttentionArgs& x) {
  const int64_t keys = row_distance(kKeyBlock), qk = row_distance(x.a.qk),
                value = row_distance(x.a.value);
  return (x.a.qk + x.a.value) * keys + kKeyBlock * (2 * qk + value) +
         kQueryBlock * (2 * keys + 2 * qk + value) + x.a.heads * x.a.queries;
}

}  // namespace plait::cpu
