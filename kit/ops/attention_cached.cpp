#include "kit/ops/attention_cached.hpp"

namespace plait::kit {
namespace {

constexpr plait_option kAll[] = {kAttentionCachedAttrs[0], kAttentionCachedAttrs[1],
                                 kAttentionCachedAttrs[2], kAttentionCachedPart[0],
                                 kAttentionCachedPart[1],  kAttentionCachedPart[2],
                                 kAttentionCachedPart[3]};

void need_heads(const plait_shape& s, const char* what, const char* dims) {
  need(s.ndim == 4 && is_float(s.dtype),
       std::string(what) + " is " + text(s) + ", expected floats " + dims);
}

// Of x (B,t,..), cache (N,S,..) and the two inputs from `first` on.
CachePlaces parse_places(const plait_op_desc& d, const plait_shape& x, const plait_shape& cache,
                         uint32_t first) {
  const plait_shape &slot = d.inputs[first], &at = d.inputs[first + 1];
  need_index(slot, "slot");
  need_index(at, "at");
  need_dims(slot, "slot", {x.dims[0]});
  need_dims(at, "at", {x.dims[0], x.dims[1]});
  return {x.dims[0], x.dims[1], cache.dims[0], cache.dims[1], slot.dtype, at.dtype};
}

}  // namespace

CacheWrite parse_cache_write(const plait_op_desc& d) {
  need_operands(d, 4, 1);
  const plait_shape &cache = d.inputs[0], &x = d.inputs[1];
  need_heads(cache, "cache", "(slots, places, heads, channels)");
  need_heads(x, "x", "(samples, tokens, heads, channels)");
  need_dims(x, "x", {x.dims[0], x.dims[1], cache.dims[2], cache.dims[3]});
  if (has_outputs(d)) need_same(d.outputs[0], cache);
  return {parse_places(d, x, cache, 2), cache.dims[2] * cache.dims[3], cache.dtype, x.dtype};
}

CachedAttention parse_attention_cached(const plait_op_desc& d) {
  need_operands(d, 5, 1);
  const plait_shape &q = d.inputs[0], &k = d.inputs[1], &v = d.inputs[2];
  need_heads(q, "q", "(samples, tokens, heads, channels)");
  need_heads(k, "k", "(slots, places, heads, channels)");
  need_heads(v, "v", "(slots, places, heads, channels)");
  need(k.dtype == v.dtype, "v is " + text(v) + ", expected the type of k, " + text(k));
  CachedAttention c;
  c.at = parse_places(d, q, k, 3);
  c.cache_type = k.dtype;
  Attention& a = c.a;
  a.samples = q.dims[0], a.queries = q.dims[1], a.heads = q.dims[2], a.qk = q.dims[3];
  a.keys = k.dims[1], a.groups = k.dims[2], a.value = v.dims[3];
  need_dims(k, "k", {c.at.slots, a.keys, a.groups, a.qk});
  need_dims(v, "v", {c.at.slots, a.keys, a.groups, a.value});
  const AttrReader attrs(d, kAll);
  a.scale = attrs.real("scale");
  a.softcap = attrs.real("softcap");
  a.window = attrs.integer("window");
  read_part(a, attrs);
  if (!has_outputs(d)) return c;
  need_dims(d.outputs[0], "o", {a.samples, a.queries, a.heads, a.value});
  need(d.outputs[0].dtype == q.dtype, "o is " + text(d.outputs[0]) + ", expected the type of q");
  return c;
}

}  // namespace plait::kit
