// Operands of the attention kernels on tensor cores. Letters as in kit/ops/attention.hpp: B
// samples, T queries, S keys, H query heads, G key heads, d channels of a query or key, e of a
// value.
#pragma once

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

// Queries whose keys are summed up in one AttentionSpan: no block of queries is smaller.
constexpr int32_t kAttentionSpan = 64;

// Keys [begin, end) of a query. One without keys has kNoKey and 0.
struct AttentionKeys {
  int32_t begin, end;
};
constexpr int32_t kNoKey = 0x7fffffff;

// Of several queries: [begin, end) are the keys that any of them sees, none where end <= begin;
// [all_begin, all_end) those that each of them sees.
struct AttentionSpan {
  int32_t begin, end, all_begin, all_end;
};

// Tiles: a block of threads has the rows, and walks over the others. `channels`: 64 or 128.
constexpr int kAttentionThreads = 128;
constexpr int kAttentionQueries = 128, kAttentionKeys = 64;  // forward
constexpr int kGradKeyRows = 64, kGradQueryColumns = 64;     // of dk and dv
constexpr int kGradQueryRows = 128, kGradKeyColumns = 32;    // of dq
// Bytes of shared memory; the columns of the gradients twice, one of them being copied.
constexpr unsigned attention_shared(unsigned channels) {
  return (kAttentionQueries + 2 * kAttentionKeys) * 2 * channels;
}
constexpr unsigned grad_keys_shared(unsigned channels) {
  return 2 * (kGradKeyRows + 2 * kGradQueryColumns) * 2 * channels + 2 * 2 * kGradQueryColumns * 4;
}
constexpr unsigned grad_queries_shared(unsigned channels) {
  return 2 * (kGradQueryRows + 2 * kGradKeyColumns) * 2 * channels;
}

// Of f32, without tensor cores. Rows in shared memory are four elements apart, for the banks.
constexpr int kF32Threads = 256, kF32Queries = 64, kF32Columns = 32;
constexpr int f32_grad_rows(int channels) { return channels <= 64 ? 64 : 32; }
constexpr int f32_stride(int width) { return width + 4; }
constexpr unsigned f32_shared(int rows, int columns, int channels, int weights_rows) {
  return static_cast<unsigned>((rows + columns) * f32_stride(channels) +
                               weights_rows * f32_stride(kF32Columns)) *
         4;
}
constexpr unsigned attention_f32_shared(int channels) {
  return f32_shared(kF32Queries, 2 * kF32Columns, channels, kF32Queries);
}
constexpr unsigned grad_f32_shared(int channels) {
  const int rows = f32_grad_rows(channels);
  return f32_shared(2 * rows, 2 * kF32Columns, channels, rows);
}

struct AttentionArgs {
  const void *q, *k, *v;
  const void *o, *d_o;  // of the gradient
  const float* lse;
  void* out;  // forward
  float* out_lse;
  void *dq, *dk, *dv;
  float* delta;  // (B, H, T): the sum of o * do
  AnyPointer first;
  AttentionKeys* ranges;  // (B, T), with documents; else nullptr
  AttentionSpan* spans;   // (B, T / kAttentionSpan, rounded up)
  const int64_t* counter;

  int32_t samples, queries, keys, heads, groups, qk, value;
  int32_t causal, window;  // window 0: none
  // Query heads [i * heads_per_group - skipped_heads, ...) read key head i.
  int32_t heads_per_group, skipped_heads;
  int32_t first_head;  // of dropout: the number of the first head here
  float scale, softcap;
  float dropout, kept;  // what a weight that is kept is multiplied by
  uint64_t seed;
  uint32_t stream;  // a stream_word()
  uint32_t reserved;
};

}  // namespace plait::cuda
