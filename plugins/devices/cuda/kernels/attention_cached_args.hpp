// What the kernels of cache_write and attention_cached take. N slots of S places; B samples, t
// tokens of each, H query heads, G key heads, d channels of a query or key, e of a value.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

struct CacheWriteArgs {
  AnyPointer cache, x, slot, at;
  int64_t samples, tokens, slots, places, width;  // width: G * d
  int32_t log_lanes;                              // of row_tiles()
  int32_t reserved;
};

constexpr int kAttentionCachedBlock = 128, kAttentionCachedChannels = 128;

struct AttentionCachedArgs {
  AnyPointer q, k, v, slot, at, out;
  int64_t samples, tokens, slots, places, heads, groups, qk, value;
  int64_t first_head, all_heads, first_group, all_groups;
  int64_t window;  // 0: none
  double scale, softcap;
};

}  // namespace plait::cuda
