// What the kernels of attention_plain take. B samples, T queries, S keys, H query heads, G key
// heads, d channels of a query or key, e of a value.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

constexpr int kAttentionPlainBlock = 128;
// Channels of a row that a warp adds up; rows of more are the work of several warps.
constexpr int kAttentionPlainChannels = 128;

// What the gradient of the keys needs of a query: sum(o * do), and the keys that it sees.
struct AttentionPlainRow {
  double mean;
  int64_t begin, end;
};

struct AttentionPlainArgs {
  const void *q, *k, *v, *o, *d_o;  // o and d_o of the gradient
  AnyPointer lse;
  void *out, *dq, *dk, *dv;
  AnyPointer first;         // null: no documents
  const int64_t* counter;   // of dropout
  AttentionPlainRow* rows;  // (B, H, T), of the gradient
  int64_t samples, queries, keys, heads, groups, qk, value;
  int64_t first_head, all_heads, first_group, all_groups;
  int64_t window;  // 0: none
  double scale, softcap, dropout;
  uint64_t seed;
  uint32_t stream;  // a stream_word()
  int32_t causal;
};

}  // namespace plait::cuda
