// Scaled dot-product attention with grouped heads (Vaswani et al. 2017; Ainslie et al. 2023). The
// backward pass keeps the log-sum-exp of each row in place of the weights (Dao et al. 2022).
//
// Scores s = scale*q.k, capped as c*tanh(s/c); weights P = exp(s - lse) over the keys that
// kit::keys_of() gives a query; Z = 1/(1 - dropout) or 0 for each weight; o = (P*Z).v. A query
// without keys has o = 0 and lse = -inf.
#include "kit/ops/attention.hpp"

#include <plait/comm.h>

#include "engine/program/op_def.hpp"
#include "engine/program/ops/attention_heads.hpp"
#include "engine/program/shard.hpp"
#include "engine/program/with_cache.hpp"

namespace plait::program {
namespace {

// Inputs q, k, v; of the gradient o, lse, do as well; then `first` and the counter, if any.
enum Input : size_t { kQ, kK, kV, kO, kLse, kDo };
constexpr int32_t kSampleDim = 0, kHeadDim = kAttentionHeadDim, kLseHeadDim = 1;

bool drops(const Attrs& attrs) { return attrs.real("dropout", 0) > 0; }

std::vector<plait_shape> infer(const InferContext& c) {
  const kit::Attention a = kit::parse_attention(c.desc, kit::Library::kKnown);
  return {c.like_first({a.samples, a.queries, a.heads, a.value}),
          make_shape(accumulation_dtype(c.in[0].dtype), {a.samples, a.heads, a.queries})};
}
std::vector<plait_shape> infer_grad(const InferContext& c) {
  kit::parse_attention_grad(c.desc);
  return {c.in[kQ], c.in[kK], c.in[kV]};
}

void vjp(VjpContext& u) {
  std::vector<ValueId> in = u.op.in;
  in.insert(in.begin() + kO, {u.op.out[0], u.op.out[1], u.d_out[0]});
  const std::vector<ValueId> d = u.g.apply("dot_product_attention_grad", in, u.op.attrs);
  std::copy(d.begin(), d.end(), u.d_in.begin());
}

// Of all pairs of a query and a key that the mask lets through. `first` is not known yet.
double masked_pairs(const Graph& g, const Op& op) {
  const plait_shape &q = g.shape(op.in[kQ]), &k = g.shape(op.in[kK]);
  kit::Attention a;
  a.causal = op.attrs.integer("causal", 1) != 0;
  a.window = op.attrs.integer("window", 0);
  int64_t keys = 0;
  for (int64_t t = 0; t < q.dims[1]; ++t) {
    const kit::KeyRange seen = kit::keys_of(a, t, 0, k.dims[1]);
    keys += std::max<int64_t>(seen.end - seen.begin, 0);
  }
  return static_cast<double>(q.dims[0] * q.dims[kHeadDim]) * static_cast<double>(keys);
}
double all_pairs(const Graph& g, const Op& op) {
  const plait_shape &q = g.shape(op.in[kQ]), &k = g.shape(op.in[kK]);
  return static_cast<double>(q.dims[0] * q.dims[kHeadDim]) *
         static_cast<double>(q.dims[1] * k.dims[1]);
}
double channels(const Graph& g, const Op& op, size_t input) {
  return static_cast<double>(g.shape(op.in[input]).dims[3]);
}
using Pairs = double (*)(const Graph&, const Op&);
template <Pairs pairs>
double flops(const Graph& g, const Op& op) {
  return 2 * (channels(g, op, kQ) + channels(g, op, kV)) * pairs(g, op);
}
template <Pairs pairs>
double flops_grad(const Graph& g, const Op& op) {
  return (6 * channels(g, op, kQ) + 4 * channels(g, op, kV)) * pairs(g, op);
}

// Along the samples, where no number of a sample decides what is dropped.
bool shard(const Graph&, const Op& op, const std::vector<Placement>& have, int64_t, Sharding& s) {
  if (first_shard(have).dim != kSampleDim || drops(op.attrs)) return false;
  std::fill(s.in.begin(), s.in.end(), shard_along(kSampleDim));
  std::fill(s.out.begin(), s.out.end(), shard_along(kSampleDim));
  return true;
}

// The inputs of one rank: its query heads, the key heads that they read, and the rest whole.
std::vector<ValueId> inputs_of_heads(ShardContext& u, const HeadParts& p, bool grad) {
  const Placement heads = shard_along(kHeadDim), groups = p.own_groups ? heads : kReplicated;
  std::vector<ValueId> in{u.input(kQ, heads), u.input(kK, groups), u.input(kV, groups)};
  if (grad)
    in.insert(in.end(),
              {u.input(kO, heads), u.input(kLse, shard_along(kLseHeadDim)), u.input(kDo, heads)});
  for (size_t i = in.size(); i < u.op.in.size(); ++i) in.push_back(u.input(i, kReplicated));
  return in;
}

bool write_sharded(ShardContext& u) {
  const auto parts = head_parts(u);
  if (!parts) return false;
  u.out = u.to.apply("dot_product_attention", inputs_of_heads(u, *parts, false),
                     attrs_of_heads(u, *parts));
  u.out_placement = {shard_along(kHeadDim), shard_along(kLseHeadDim)};
  return true;
}
bool write_sharded_grad(ShardContext& u) {
  const auto parts = head_parts(u);
  if (!parts) return false;
  u.out = u.to.apply("dot_product_attention_grad", inputs_of_heads(u, *parts, true),
                     attrs_of_heads(u, *parts));
  const Placement groups = parts->own_groups ? shard_along(kHeadDim) : partial(PLAIT_COMM_SUM);
  u.out_placement = {shard_along(kHeadDim), groups, groups};
  return true;
}

bool write_cached(CacheContext& u) {
  if (u.op.attrs.integer("causal", 1) == 0) return false;
  const ValueId k = u.cache(u.rows(kK)), v = u.cache(u.rows(kV));
  if (u.only_cache) return true;
  Attrs attrs;
  for (const char* name : {"scale", "softcap", "window"})
    if (const Attr* given = u.op.attrs.find(name)) attrs.set(*given);
  u.out = {u.to.apply1("attention_cached", {u.rows(kQ), k, v, u.slot, u.at}, std::move(attrs)), 0};
  return true;
}

std::vector<OpExample> examples() {
  const Dims q{2, 4, 4, 3}, k{2, 4, 2, 3}, v{2, 4, 2, 2};
  const Attr scale = attr("scale", 0.7);
  return {
      {.inputs = {q, k, v}, .attrs = {scale}},
      {.inputs = {q, k, v}, .attrs = {scale, attr("window", int64_t{2}), attr("softcap", 1.5)}},
      {.inputs = {q, {2, 3, 1, 3}, {2, 3, 1, 2}}, .attrs = {scale, attr("causal", false)}},
      {.inputs = {q, k, v},
       .attrs = {scale, attr("first", true)},
       .indices = {{0, 0, 2, 2, 0, 1, 1, 4}},
       .index_dims = {2, 4}},
      {.inputs = {q, k, v},
       .attrs = {scale, attr("causal", false), attr("first", true), attr("window", int64_t{2})},
       .indices = {{0, 0, 2, 2, 0, 1, 1, 1}},
       .index_dims = {2, 4}},
      {.inputs = {q, k, v},
       .attrs = {scale, attr("dropout", 0.4), attr("seed", int64_t{5}), attr("stream", int64_t{9})},
       .counter = true},
  };
}

}  // namespace

std::span<const OpDef> attention_ops() {
  static const OpDef kOps[] = {
      {.name = "dot_product_attention",
       .help = "softmax(scale*q.k over the keys that a query sees), times v; with its log-sum-exp",
       .signature = "q (B, T, H, d), k (B, S, G, d), v (B, S, G, e) [, first (B, T)] "
                    "[, counter (2)] -> o (B, T, H, e), lse (B, H, T)",
       .dtypes = "floats of one type, first i32, i64 or u8, counter i64; lse f32, of f64 f64",
       .attrs = kit::kAttentionAttrs,
       .rewrite_attrs = kit::kAttentionForward,
       .infer = infer,
       .reads_random = drops,
       .vjp = vjp,
       .differentiable_outputs = 1,
       .flops = flops<masked_pairs>,
       .unmasked_flops = flops<all_pairs>,
       .is_product = true,
       .precision = PrecisionClass::kLow,
       .typed_operands = 3,
       .shard = shard,
       .write_sharded = write_sharded,
       .write_cached = write_cached,
       .examples = examples},
      {.name = "dot_product_attention_grad",
       .help = "gradients of dot_product_attention",
       .signature =
           "q (B, T, H, d), k (B, S, G, d), v (B, S, G, e), o (B, T, H, e), lse (B, H, T), "
           "do (B, T, H, e) [, first (B, T)] [, counter (2)] -> dq (B, T, H, d), "
           "dk (B, S, G, d), dv (B, S, G, e)",
       .dtypes = "as dot_product_attention",
       .attrs = kit::kAttentionAttrs,
       .rewrite_attrs = kit::kAttentionPart,
       .infer = infer_grad,
       .flops = flops_grad<masked_pairs>,
       .unmasked_flops = flops_grad<all_pairs>,
       .is_product = true,
       .shard = shard,
       .write_sharded = write_sharded_grad}};
  return kOps;
}

}  // namespace plait::program
