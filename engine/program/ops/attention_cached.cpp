// Attention with the keys and values of earlier calls in a cache, and what writes them there: the
// form that a causal dot_product_attention has in a program that continues sequences. N slots of S
// places, B samples of t tokens, H query heads, G key heads, d and e channels.
#include "kit/ops/attention_cached.hpp"

#include "engine/program/op_def.hpp"
#include "engine/program/ops/attention_heads.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer_write(const InferContext& c) {
  kit::parse_cache_write(c.desc);
  return {c.in[0]};
}
std::vector<plait_shape> infer(const InferContext& c) {
  const kit::Attention a = kit::parse_attention_cached(c.desc).a;
  return {c.like_first({a.samples, a.queries, a.heads, a.value})};
}

// The most that it may take: as if every query stood at the last place of its slot.
double flops(const Graph& g, const Op& op) {
  const plait_shape &q = g.shape(op.in[0]), &k = g.shape(op.in[1]), &v = g.shape(op.in[2]);
  const int64_t window = op.attrs.integer("window", 0);
  const int64_t keys = window > 0 ? std::min(window, k.dims[1]) : k.dims[1];
  return 2 * static_cast<double>(q.dims[0] * q.dims[1] * q.dims[2]) * static_cast<double>(keys) *
         static_cast<double>(q.dims[3] + v.dims[3]);
}

// Along the query heads, as dot_product_attention.
bool write_sharded(ShardContext& u) {
  const auto parts = head_parts(u);
  if (!parts) return false;
  const Placement heads = shard_along(kAttentionHeadDim),
                  groups = parts->own_groups ? heads : kReplicated;
  u.out = {u.to.apply1("attention_cached",
                       {u.input(0, heads), u.input(1, groups), u.input(2, groups),
                        u.input(3, kReplicated), u.input(4, kReplicated)},
                       attrs_of_heads(u, *parts))};
  u.out_placement = {heads};
  return true;
}

}  // namespace

std::span<const OpDef> attention_cached_ops() {
  static const OpDef kOps[] = {
      {.name = "cache_write",
       .help = "cache with row i of sample b at place at[b,i] of slot[b], in the memory of cache; "
               "a row whose place or slot there is none of is left out, and of two at one place "
               "the later one stays",
       .signature = "cache (N, S, G, d), x (B, t, G, d), slot (B), at (B, t) -> cache (N, S, G, d)",
       .dtypes = "cache and x floats, each of its own type; slot and at i32, i64 or u8",
       .audience = Audience::kEngine,
       .infer = infer_write,
       .flops = no_flops,
       .updates_input = true},
      {.name = "attention_cached",
       .help = "softmax(scale*q.k), times v, over keys of slot[b]: query i of sample b sees those "
               "at places max(0, p-window+1) to min(p, S-1), p = at[b,i]; 0 where it sees none",
       .signature = "q (B, t, H, d), k (N, S, G, d), v (N, S, G, e), slot (B), at (B, t) "
                    "-> o (B, t, H, e)",
       .dtypes = "q floats, k and v floats of one type; slot and at i32, i64 or u8",
       .attrs = kit::kAttentionCachedAttrs,
       .rewrite_attrs = kit::kAttentionCachedPart,
       .audience = Audience::kEngine,
       .infer = infer,
       .flops = flops,
       .write_sharded = write_sharded}};
  return kOps;
}

}  // namespace plait::program
