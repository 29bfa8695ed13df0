// layer-transformer: attention, MLP, experts, the block of attention and one of these, learned
// positions, a soft cap.
#include "plugins/layers/transformer/options.hpp"
#include "plugins/layers/transformer/parts.hpp"
#include "plugins/support/functions.hpp"

namespace plait::transformer {
namespace {

using In = std::span<const Value>;

Value build_attention(Builder& b, const Options& o, In in) { return attention(b, o, in[0], ""); }
Value build_mlp(Builder& b, const Options& o, In in) { return mlp(b, o, in[0], ""); }
Value build_experts(Builder& b, const Options& o, In in) { return experts(b, o, in[0], ""); }

// norm_at "pre":  x + A(norm(x)), then x + M(norm(x))
//         "post": x + norm(A(x)), then x + norm(M(x))
//         "both": x + norm(A(norm(x))), then x + norm(M(norm(x)))
Value build_decoder_block(Builder& b, const Options& o, In in) {
  tokens_of(b, in[0], "decoder_block");
  const bool before = o.text("norm_at") != "post", behind = o.text("norm_at") != "pre";
  const auto norm = [&](Value x, const std::string& prefix) {
    return o.text("norm") == "rms_norm" ? functions::rms_norm(b, o, x, prefix)
                                        : functions::layer_norm(b, o, x, prefix);
  };
  const auto add = [&](Value x, const std::string& name, const auto& part) {
    Value y = part(b, o, before ? norm(x, name + "_norm.") : x, name + ".");
    if (behind) y = norm(y, name + "_post_norm.");
    return x + y;
  };
  return add(add(in[0], "attn", attention), "mlp", o.integer("experts") > 0 ? experts : mlp);
}

constexpr plait_option kPositions[] = {
    at_least(opt_int("length", nullptr, "most tokens of a sample"), 1),
    opt_text("positions", "\"\"",
             "the value (samples, tokens) with the position of each token, such as the field "
             "\"positions\" of packed tokens; empty: 0, 1, 2, ..."),
    at_least(opt_real("std", "0.02", "standard deviation of the initial rows"), 0)};

// x (B,T,C) plus row p of a table (length, C) at the token of position p.
Value build_positions(Builder& b, const Options& o, In in) {
  const Shape x = tokens_of(b, in[0], "positions");
  const int64_t length = o.integer("length"), tokens = x.dims[1];
  const std::string given(o.text("positions"));
  if (given.empty() && tokens > length)
    refuse(b, "positions",
           "samples have " + std::to_string(tokens) + " tokens, expected at most `length`, " +
               std::to_string(length) + "; set at " + o.origin("length"));
  const Value table =
      b.parameter("weight", Shape({length, x.last()}), Init::normal(0, o.real("std")));
  if (!given.empty())
    return in[0] + b.op("gather", {table, of_tokens(b, given, x, "positions", "positions")});
  if (tokens == length) return in[0] + table;
  return in[0] + b.op("slice", {table}, {attr("axis", 0), attr("start", 0), attr("stop", tokens)});
}

constexpr plait_option kSoftcap[] = {above(opt_real("cap", nullptr, "c: greatest size"), 0)};
Value build_softcap(Builder&, const Options& o, In in) {
  const double cap = o.real("cap");
  return cap * tanh(in[0] * (1 / cap));
}

}  // namespace
}  // namespace plait::transformer

PLAIT_PLUGIN("layer-transformer", "0.1.0", "Apache-2.0",
             "Attention, MLP, experts, the transformer block, learned positions") {
  using namespace plait;
  using namespace plait::transformer;
  static const plait_layer_item items[] = {
      layer<build_decoder_block>("decoder_block",
                                 "attention and MLP or experts, each with norms and added to its "
                                 "input",
                                 kDecoderBlock),
      layer<build_attention>("attention", "multi-head attention between its products",
                             kAttentionLayer),
      layer<build_mlp>("mlp", "two products with an activation between them, gated or not",
                       kMlpLayer),
      layer<build_experts>("experts", "MLPs of which a router chooses some for each token",
                           kExpertsLayer),
      layer<build_positions>("positions", "adds a learned row for each position", kPositions),
      layer<build_softcap>("softcap", "c*tanh(x/c)", kSoftcap),
  };
  for (const auto& item : items) host.add(item);
}
