// Attention with the keys and values of earlier calls in a cache. N slots of S places, one slot for
// each sequence; B samples, t tokens of each; H query heads, G key heads, d channels of a query or
// key, e of a value. Token i of sample b stands at place at[b,i] of slot[b].
#pragma once

#include "kit/ops/attention.hpp"

namespace plait::kit {

inline constexpr plait_option kAttentionCachedAttrs[] = {
    real_option("scale", nullptr, "factor of the scores, as 1/sqrt(d)"),
    at_least(int_option("window", "0", "a query sees keys at a distance below it; 0: at any"), 0),
    at_least(real_option("softcap", "0", "c: scores become c*tanh(score/c); 0: they stay"), 0),
};

// Of a part of the heads, which of all they are; as in kAttentionPart.
inline constexpr plait_option kAttentionCachedPart[] = {kAttentionPart[2], kAttentionPart[3],
                                                        kAttentionPart[4], kAttentionPart[5]};

// Which place each token has.
struct CachePlaces {
  int64_t samples = 0, tokens = 0;      // B, t
  int64_t slots = 0, places = 0;        // N, S
  uint32_t slot_type = 0, at_type = 0;  // of the indices: i32, i64 or u8
  bool has_slot(int64_t slot) const { return slot >= 0 && slot < slots; }
  bool has_place(int64_t at) const { return at >= 0 && at < places; }
};

struct CacheWrite {
  CachePlaces at;
  int64_t width = 0;                        // G*d, elements of a place
  uint32_t cache_type = 0, value_type = 0;  // of the cache, and of what is written
};
// cache (N,S,G,d), x (B,t,G,d), slot (B), at (B,t) -> cache (N,S,G,d).
CacheWrite parse_cache_write(const plait_op_desc& d);

struct CachedAttention {
  Attention a;  // queries: t, keys: S
  CachePlaces at;
  uint32_t cache_type = 0;  // of k and v
  // The keys that a query at place p of a slot sees.
  KeyRange keys_at(int64_t p) const {
    if (p < 0) return {};
    const int64_t begin = a.window > 0 ? std::max<int64_t>(p - a.window + 1, 0) : 0;
    return {begin, std::min(p, a.keys - 1) + 1};
  }
};
// q (B,t,H,d), k (N,S,G,d), v (N,S,G,e), slot (B), at (B,t) -> o (B,t,H,e).
CachedAttention parse_attention_cached(const plait_op_desc& d);

}  // namespace plait::kit
