// Scratch of the attention kernels on bf16. Products take blocks of bf16 from scratch only: padded
// with zeros to whole blocks, in pairs where they are the second operand. Letters as in
// kit/ops/attention.hpp.
#pragma once

#include "plugins/devices/cpu/half/block_products.hpp"
#include "plugins/devices/cpu/kernels/attention_args.hpp"

namespace plait::cpu {

static_assert(kQueryBlock == kKeyBlock && kKeyBlock % kBlockColumns == 0 &&
              kKeyBlock % kBlockDepth == 0 && kKeyBlock % kBlockRows == 0);
constexpr int64_t padded_depth(int64_t n) {
  return (n + kBlockDepth - 1) / kBlockDepth * kBlockDepth;
}
static_assert(kBlockDepth == kBlockColumns && kBlockDepth % kBlockRows == 0);

// Cuts a thread's scratch into blocks that begin at whole cache lines. Without memory it counts.
class ScratchParts {
 public:
  explicit ScratchParts(float* memory) : memory_(memory) {}
  float* floats(int64_t n) {
    float* at = memory_ ? memory_ + used_ : nullptr;
    used_ += (n + 15) / 16 * 16;
    return at;
  }
  // One line more than a row needs keeps rows apart in the sets of the nearest cache.
  Block32 f32(int64_t rows, int64_t columns) {
    const int64_t row = columns + 16;
    return {floats(rows * row), row};
  }
  Block16 bf16(int64_t rows, int64_t columns) {
    const int64_t row = columns + 32;
    return {reinterpret_cast<uint16_t*>(floats(rows * row / 2)), row};
  }
  int64_t used() const { return used_; }

 private:
  float* memory_;
  int64_t used_ = 0;
};

// Forward. Keys and values of a block are packed when it is first needed.
struct HalfScratch {
  HalfScratch(const AttentionArgs& x, ScratchParts parts)
      : d(padded_depth(x.a.qk)),
        e(padded_depth(x.a.value)),
        keys(parts.bf16(x.key_blocks() * d / 2, 2 * kKeyBlock)),
        values(parts.bf16(x.key_blocks() * kKeyBlock / 2, 2 * e)),
        rows(parts.bf16(kKeyBlock, std::max(d, e))),
        q(parts.bf16(kQueryBlock, d)),
        p(parts.bf16(kQueryBlock, kKeyBlock)),
        s(parts.f32(kQueryBlock, kKeyBlock)),
        o(parts.f32(kQueryBlock, e)),
        most(parts.floats(kQueryBlock)),
        sum(parts.floats(kQueryBlock)),
        packed(parts.floats(x.key_blocks())),
        floats(parts.used()) {}
  int64_t d, e;
  Block16 keys;    // of each block (d/2, keys) pairs along d
  Block16 values;  // of each block (keys/2, e) pairs along keys
  Block16 rows;    // of a block before it is packed
  Block16 q, p;    // (queries, d), (queries, keys)
  Block32 s, o;    // (queries, keys), (queries, e)
  float *most, *sum;
  float* packed;  // (key blocks) 1: the block lies in keys and values
  int64_t floats;
};

// Gradient: all keys of a sample and key head, and one block of queries. Scores are computed
// transposed, (keys, queries), so that they are the first operand of dk and dv as they are.
struct HalfGradScratch {
  HalfGradScratch(const AttentionArgs& x, ScratchParts parts)
      : d(padded_depth(x.a.qk)),
        e(padded_depth(x.a.value)),
        k(parts.bf16(x.key_blocks() * kKeyBlock, d)),
        v(parts.bf16(x.key_blocks() * kKeyBlock, e)),
        kt(parts.bf16(x.key_blocks() * d, kKeyBlock)),
        dk(parts.f32(x.key_blocks() * kKeyBlock, d)),
        dv(parts.f32(x.key_blocks() * kKeyBlock, e)),
        q(parts.bf16(kQueryBlock, d)),
        d_o(parts.bf16(kQueryBlock, e)),
        q_columns(parts.bf16(d / 2, 2 * kQueryBlock)),
        do_columns(parts.bf16(e / 2, 2 * kQueryBlock)),
        q_rows(parts.bf16(kQueryBlock / 2, 2 * d)),
        do_rows(parts.bf16(kQueryBlock / 2, 2 * e)),
        p(parts.bf16(kKeyBlock, kQueryBlock)),
        ds(parts.bf16(kKeyBlock, kQueryBlock)),
        ds_rows(parts.bf16(kKeyBlock / 2, 2 * kQueryBlock)),
        s(parts.f32(kKeyBlock, kQueryBlock)),
        dp(parts.f32(kKeyBlock, kQueryBlock)),
        kept(parts.f32(x.a.dropout > 0 ? 2 * kKeyBlock : 0, kQueryBlock)),
        dqt(parts.f32(d, kQueryBlock)),
        dq(parts.f32(kQueryBlock, (d + kKeyBlock - 1) / kKeyBlock * kKeyBlock)),
        lse(parts.floats(kQueryBlock)),
        mean(parts.floats(kQueryBlock)),
        begin(reinterpret_cast<int32_t*>(parts.floats(kQueryBlock))),
        end(reinterpret_cast<int32_t*>(parts.floats(kQueryBlock))),
        floats(parts.used()) {}
  int64_t d, e;
  Block16 k, v, kt;               // (S, d), (S, e); of each block (d, keys)
  Block32 dk, dv;                 // (S, d), (S, e)
  Block16 q, d_o;                 // (queries, d), (queries, e)
  Block16 q_columns, do_columns;  // (d/2, queries), (e/2, queries) pairs along d and e
  Block16 q_rows, do_rows;        // (queries/2, d), (queries/2, e) pairs along queries
  Block16 p, ds;                  // (keys, queries)
  Block16 ds_rows;                // (keys/2, queries) pairs along keys
  Block32 s, dp;                  // (keys, queries)
  Block32 kept;                   // with dropout: (keys, queries), then (queries, keys)
  Block32 dqt, dq;                // (d, queries), (queries, d)
  float *lse, *mean;              // (queries) lse to base 2, and D, the sum of o * do
  int32_t *begin, *end;           // (queries) the keys that each sees
  int64_t floats;
};

}  // namespace plait::cpu
