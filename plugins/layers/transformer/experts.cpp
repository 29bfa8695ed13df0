// A mixture of experts: p = softmax(x.Wrouter); a token's k most probable experts compute it, and
// y = sum of their weights times their results (Shazeer et al. 2017; no token is dropped, as in
// MegaBlocks, Gale et al. 2022).
//   E experts, k of a token, N tokens, C width, F inner width of an expert
#include <vector>

#include "plugins/layers/transformer/parts.hpp"
#include "plugins/support/functions.hpp"

namespace plait::transformer {
namespace {

void check_options(const Builder& b, const Options& o) {
  const int64_t experts = o.integer("experts"), chosen = o.integer("top_k");
  if (experts < 1)
    refuse(b, "experts",
           std::string("experts = 0, expected at least 1; set at ") + o.origin("experts"));
  if (chosen > experts)
    refuse(b, "experts",
           "top_k = " + std::to_string(chosen) + " of experts = " + std::to_string(experts) +
               ", expected at most as many; set at " + o.origin("top_k"));
  if (o.flag("mlp_bias") || o.flag("bias"))
    refuse(b, "experts",
           std::string("experts have no biases, found ") +
               (o.flag("mlp_bias") ? "mlp_bias" : "bias") +
               " = true; leave it out, and of the attention set qkv_bias and "
               "out_bias");
}

// The term that keeps experts busy (Fedus et al. 2021, arXiv 2101.03961, equation 4): of each
// sample E · Σ_e share_e · mean p_e, with the share of its tokens that have expert e, which counts
// as a constant, and the mean of their probabilities p (B,T,E). Of samples, so that neither
// micro-batches nor ranks matter.
void balance(const Builder& b, double factor, Value p, Value index) {
  if (!b.training() || factor == 0) return;
  const Shape shape = b.shape(p), of_index = b.shape(index);
  const auto tokens = static_cast<double>(shape.dims[1]);
  const Value ones = b.op("fill", {}, {attr("value", 1.0), attr("shape", of_index.dims)});
  const Value has =
      b.op("stop_gradient", {b.op("top_k_grad", {ones, index}, {attr("extent", shape.last())})});
  const Value share = b.sum(has, {1}, false), mean = b.sum(p, {1}, false);  // (B,E), times T
  const Value weight = b.named("weight");
  const Value each =
      b.sum(share * mean, {1}, false) * (static_cast<double>(shape.last()) / (tokens * tokens));
  b.add_loss("balance", factor, b.sum(b.as(each, b.shape(weight).dtype) * weight), b.sum(weight));
}

// The experts of each token, and their weights; (B,T,k) both.
struct Routes {
  Value weights, index;
};
// In f32 whatever the precision is: rounded numbers would choose other experts.
Routes route(const Builder& b, const Options& o, Value x, const std::string& prefix) {
  const Shape shape({o.integer("experts"), b.shape(x).last()});
  const Value weight =
      b.parameter((prefix + "router.weight").c_str(), shape, Init::normal(0, start_of(o).std));
  const Value logits = b.op("matmul", {x, weight}, {attr("transpose_b", true), attr("wide", true)});
  const Value p = b.op("softmax", {logits});
  const std::vector<Value> chosen = b.ops("top_k", {p}, {attr("k", o.integer("top_k"))}, 2);
  balance(b, o.real("balance"), p, chosen[1]);
  if (!o.flag("norm_top_k")) return {chosen[0], chosen[1]};
  return {chosen[0] / b.sum(chosen[0], {2}, true), chosen[1]};
}

}  // namespace

Value experts(const Builder& b, const Options& o, Value x, const std::string& prefix) {
  const int64_t width = tokens_of(b, x, "experts").last(), inner = inner_width(o, width),
                count = o.integer("experts");
  check_options(b, o);
  const MlpKind& kind = mlp_kind(b, o, "experts");
  const Start start = start_of(o);
  const Routes routes = route(b, o, x, prefix);
  const std::vector<Value> sorted =
      b.ops("group_rows", {x, routes.index}, {attr("groups", count)}, 3);
  const Value place = sorted[1], offsets = sorted[2];
  // Each rank has some of the experts.
  const int32_t shard = o.text("parallel") == "heads" ? 0 : -1;
  const auto times = [&](Value rows, const char* name, int64_t out, double std) {
    const Value weight =
        b.parameter((prefix + name + ".weight").c_str(), Shape({count, out, b.shape(rows).last()}),
                    Init::normal(0, std), shard);
    return b.op("grouped_matmul", {rows, weight, offsets}, {attr("transpose_b", true)});
  };
  // One after the other: the order of the parameters is that of memory.
  const Value gate = kind.gated ? times(sorted[0], "gate", inner, start.std) : Value();
  const Value up = times(sorted[0], "up", inner, start.std);
  const Value inside = gate ? kind.activation(gate) * up : kind.activation(up);
  const Value down = times(inside, "down", width, start.out_std);
  const Value y = b.op("ungroup_rows", {down, routes.weights, place});
  return functions::dropout(b, y, o.real("dropout"));
}

}  // namespace plait::transformer
