// cache_write and attention_cached of every type, as plugins/support/plain/attention_cached.cpp.
#include "plugins/devices/cuda/kernels/attention_cached_args.hpp"
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/row_tiles.cuh"

namespace plait::cuda {
namespace {

// Whether a token of this slot and place comes behind token i of sample b: then that one stays. The
// lanes of a warp look together.
__device__ bool written_later(const CacheWriteArgs& a, int64_t b, int64_t i, int64_t slot,
                              int64_t place) {
  for (int64_t later = b; later < a.samples; ++later) {
    if (later > b && get_index(a.slot, later) != slot) continue;
    for (int64_t first = later > b ? 0 : i + 1; first < a.tokens; first += 32) {
      const int64_t j = first + threadIdx.x % 32;
      const bool same = j < a.tokens && get_index(a.at, later * a.tokens + j) == place;
      if (__any_sync(kWholeWarp, same)) return true;
    }
  }
  return false;
}

}  // namespace

// The rows of tokens that have a slot and a place. A warp is within one row.
PLAIT_GLOBAL(cache_write, CacheWriteArgs, 256) {
  const RowTile t = row_tile(a.log_lanes);
  if (t.row >= a.samples * a.tokens) return;
  const int64_t b = t.row / a.tokens, slot = get_index(a.slot, b), place = get_index(a.at, t.row);
  if (slot < 0 || slot >= a.slots || place < 0 || place >= a.places) return;
  if (written_later(a, b, t.row - b * a.tokens, slot, place)) return;
  const int64_t to = (slot * a.places + place) * a.width;
  for (int64_t u = t.first; u < a.width; u += t.step)
    set(a.cache, to + u, get(a.x, t.row * a.width + u));
}

namespace {

constexpr int kLanes = 32, kChannels = kAttentionCachedChannels / kLanes;

struct Keys {
  int64_t begin, end;
};
// Those that a query at place p of its slot sees.
__device__ Keys keys_at(const AttentionCachedArgs& a, int64_t slot, int64_t p) {
  if (slot < 0 || slot >= a.slots || p < 0) return {0, 0};
  const int64_t begin = a.window > 0 && p >= a.window ? p - a.window + 1 : 0;
  return {begin, (p < a.places - 1 ? p : a.places - 1) + 1};
}

__device__ double score(const AttentionCachedArgs& a, int64_t q, int64_t k) {
  double s = 0;
  for (int64_t i = 0; i < a.qk; ++i) s = fma(get(a.q, q + i), get(a.k, k + i), s);
  s *= a.scale;
  return a.softcap > 0 ? a.softcap * tanh(s / a.softcap) : s;
}

// Softmax over the keys, times v: the channels of this lane from `channel` on.
__device__ void attend(const AttentionCachedArgs& a, Keys keys, int64_t q, int64_t key_row,
                       int64_t channel, double (&o)[kChannels]) {
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const auto k_at = [&](int64_t s) { return (key_row + s * a.groups) * a.qk; };
  double most = -kInfinity, sum = 0;
  for (int64_t s = keys.begin + lane; s < keys.end; s += kLanes)
    most = max_nan(most, score(a, q, k_at(s)));
  most = over_warp<Max>(most);
  for (int64_t first = keys.begin; first < keys.end; first += kLanes) {
    const double weight =
        first + lane < keys.end ? exp(score(a, q, k_at(first + lane)) - most) : 0.0;
    for (int i = 0; i < kLanes && first + i < keys.end; ++i) {
      const double w = __shfl_sync(kWholeWarp, weight, i);
      sum += w;
      const int64_t v = (key_row + (first + i) * a.groups) * a.value;
      for (int c = 0; c < kChannels; ++c)
        if (channel + c * kLanes < a.value) o[c] += w * get(a.v, v + channel + c * kLanes);
    }
  }
  for (double& x : o) x = keys.begin < keys.end ? x / sum : 0;
}

}  // namespace

// A warp for each query of one head.
PLAIT_GLOBAL(attention_cached_plain, AttentionCachedArgs, kAttentionCachedBlock) {
  const int64_t row = thread_index() / kLanes;
  if (row >= a.samples * a.tokens * a.heads) return;
  const int64_t token = row / a.heads, head = row - token * a.heads,
                slot = get_index(a.slot, token / a.tokens),
                group = (a.first_head + head) * a.all_groups / a.all_heads - a.first_group,
                channel = static_cast<int64_t>(blockIdx.y) * kAttentionCachedChannels +
                          threadIdx.x % kLanes;
  double o[kChannels] = {};
  attend(a, keys_at(a, slot, get_index(a.at, token)), row * a.qk,
         slot * a.places * a.groups + group, channel, o);
  for (int c = 0; c < kChannels; ++c)
    if (channel + c * kLanes < a.value) set(a.out, row * a.value + channel + c * kLanes, o[c]);
}

}  // namespace plait::cuda
