// q, k, v = products of x; qk norm; rotation; attention; a product back to the width.
#include <charconv>
#include <cmath>

#include "plugins/support/functions.hpp"
#include "plugins/layers/transformer/options.hpp"
#include "plugins/layers/transformer/parts.hpp"

namespace plait::transformer {
namespace {

// Extents, checked. B samples, T tokens, C width.
struct Heads {
  int64_t samples, tokens, width, heads, kv_heads, channels;
};
Heads heads_of(const Builder& b, const Options& o, Value x) {
  const Shape shape = tokens_of(b, x, "attention");
  Heads h{shape.dims[0],      shape.dims[1],         shape.dims[2],
          o.integer("heads"), o.integer("kv_heads"), o.integer("head_dim")};
  if (h.kv_heads == 0) h.kv_heads = h.heads;
  if (h.heads % h.kv_heads != 0)
    refuse(b, "attention",
           "heads is " + std::to_string(h.heads) + " and kv_heads " + std::to_string(h.kv_heads) +
               ", expected a divisor of heads; set at " + o.origin("kv_heads"));
  if (h.channels == 0 && h.width % h.heads != 0)
    refuse(b, "attention",
           "heads is " + std::to_string(h.heads) + ", expected a divisor of the width, " +
               std::to_string(h.width) + "; or give head_dim; set at " + o.origin("heads"));
  if (h.channels == 0) h.channels = h.width / h.heads;
  return h;
}

std::string joined(std::span<const double> numbers) {
  std::string text;
  for (const double v : numbers) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, v).ptr;
    text += (text.empty() ? "" : ",") + std::string(digits, end);
  }
  return text;
}

// Options that would decide nothing: of a rotation that is not there, or of another scaling. Values
// are compared with what they are by default; a complete file sets every key.
void check_rope(const Builder& b, const Options& o) {
  const std::string_view pairs = o.text("rope"), scaling = o.text("rope_scaling");
  const auto need = [&](const char* option, const std::string& what) {
    refuse(b, "attention",
           std::string(option) + " has no effect " + what + "; set at " + o.origin(option));
  };
  if (pairs == "none") {
    const std::string why =
        "without rotary positions: rope is \"none\", set it to \"half\" or "
        "\"adjacent\"";
    if (scaling != "none") need("rope_scaling", why);
    if (o.real("rope_theta") != kRopeTheta) need("rope_theta", why);
    if (o.real("rope_share") != 1) need("rope_share", why);
  }
  const bool scales = scaling == "linear" || scaling == "llama3" || scaling == "yarn";
  if (scaling == "none" && o.real("rope_factor") != 1) need("rope_factor", "without rope_scaling");
  if (scales && o.real("rope_factor") == 1)
    refuse(
        b, "attention",
        "rope_scaling is \"" + std::string(scaling) +
            "\" and rope_factor 1, which changes nothing; give rope_factor, how many times longer "
            "than in training samples may be; set at " +
            o.origin("rope_scaling"));
  for (const char* list : {"rope_short", "rope_long"})
    if (scaling != "longrope" && !o.reals(list).empty())
      need(list, "unless rope_scaling is \"longrope\"");
}

// longrope: samples of T tokens need one of the lists; each that is given must fit.
void check_divisors(const Builder& b, const Options& o, int64_t tokens, size_t pairs) {
  const bool longer = tokens > o.integer("rope_original");
  for (const char* list : {"rope_short", "rope_long"}) {
    const size_t found = o.reals(list).size();
    const bool needed = longer == (list == std::string_view("rope_long"));
    if (found == pairs || (found == 0 && !needed)) continue;
    refuse(b, "attention",
           std::string(list) + " has " + std::to_string(found) + " numbers, expected " +
               std::to_string(pairs) + ", a divisor for each pair of channels; set at " +
               o.origin(found ? list : "rope_scaling"));
  }
}

// cos and sin of the positions 0 to T-1. Layers with equal options share them: equal ops are one.
std::vector<Value> rope_table(const Builder& b, const Options& o, const Heads& h) {
  const auto rotated = static_cast<int64_t>(static_cast<double>(h.channels) * o.real("rope_share"));
  if (o.real("rope_share") == 1 && rotated % 2 != 0)
    refuse(b, "attention",
           "heads have " + std::to_string(h.channels) +
               " channels, rotary positions need an even number; choose other heads or head_dim; "
               "rope is set at " +
               o.origin("rope"));
  if (rotated % 2 != 0 || rotated == 0)
    refuse(b, "attention",
           "rope_share selects " + std::to_string(rotated) + " of " + std::to_string(h.channels) +
               " channels, expected an even number above 0; set at " + o.origin("rope_share"));
  const std::string scaling(o.text("rope_scaling"));
  if (scaling != "none" && scaling != "linear" && o.integer("rope_original") == 0)
    refuse(b, "attention",
           "rope_scaling is \"" + scaling +
               "\", which needs rope_original, the length of the training; set at " +
               o.origin("rope_scaling"));
  if (scaling == "longrope") check_divisors(b, o, h.tokens, static_cast<size_t>(rotated / 2));
  const std::string factors = joined(o.reals("rope_short")),
                    long_factors = joined(o.reals("rope_long"));
  const plait_attr attrs[] = {attr("channels", rotated),
                              attr("length", h.tokens),
                              attr("theta", o.real("rope_theta")),
                              attr("scaling", scaling.c_str()),
                              attr("factor", o.real("rope_factor")),
                              attr("low", o.real("rope_low")),
                              attr("high", o.real("rope_high")),
                              attr("original", o.integer("rope_original")),
                              attr("beta_fast", o.real("rope_beta_fast")),
                              attr("beta_slow", o.real("rope_beta_slow")),
                              attr("mscale", o.real("rope_mscale")),
                              attr("mscale_all_dim", o.real("rope_mscale_all_dim")),
                              attr("amplitude", o.real("rope_attention")),
                              attr("factors", factors.c_str()),
                              attr("long_factors", long_factors.c_str())};
  return b.ops("rope_table", {}, attrs, 2);
}

void rotate(const Builder& b, const Options& o, const Heads& h, Value& q, Value& k) {
  const std::string pairs(o.text("rope"));
  check_rope(b, o);
  if (pairs == "none") return;
  const std::vector<Value> table = rope_table(b, o, h);
  for (Value* each : {&q, &k})
    *each = b.op("rope", {*each, table[0], table[1]}, {attr("pairs", pairs.c_str())});
}

Value clipped(Value x, double size) { return size > 0 ? max(min(x, size), -size) : x; }

}  // namespace

Value attention(const Builder& b, const Options& o, Value x, const std::string& prefix) {
  const Heads h = heads_of(b, o, x);
  const Start start = start_of(o);
  const bool bias = o.flag("bias"), shard = o.text("parallel") == "heads";
  const std::string_view norm = o.text("qk_norm");
  // Normalised as a whole or by heads, then (B,T,n,d).
  const auto heads = [&](const char* name, int64_t n, bool normalised) {
    Value y = product(b, x, prefix + name, n * h.channels, bias || o.flag("qkv_bias"), start.std,
                      {shard ? 0 : -1, h.channels});
    const std::string norm_name = prefix + name + "_norm.";
    if (normalised && norm == "all") y = functions::rms_norm(b, o, y, norm_name);
    y = b.reshape(clipped(y, o.real("clip_qkv")), {h.samples, h.tokens, n, h.channels});
    return normalised && norm == "head" ? functions::rms_norm(b, o, y, norm_name) : y;
  };
  Value q = heads("q", h.heads, true), k = heads("k", h.kv_heads, true);
  const Value v = heads("v", h.kv_heads, false);
  rotate(b, o, h, q, k);
  const double scale = o.real("attn_scale");
  std::vector<Value> in{q, k, v};
  const std::string documents(o.text("documents"));
  if (!documents.empty())
    in.push_back(of_tokens(b, documents, b.shape(x), "attention", "documents"));
  const plait_attr attrs[] = {
      attr("scale", scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(h.channels))),
      attr("causal", o.flag("causal")),
      attr("window", o.integer("window")),
      attr("softcap", o.real("softcap")),
      attr("first", !documents.empty()),
      attr("dropout", b.training() ? o.real("attention_dropout") : 0.0)};
  const Value y = b.ops("dot_product_attention", in, attrs, 1)[0];
  return functions::dropout(
      b,
      product(b, b.reshape(y, {h.samples, h.tokens, h.heads * h.channels}), prefix + "out", h.width,
              bias || o.flag("out_bias"), start.out_std, {shard ? 1 : -1, h.channels}),
      o.real("dropout"));
}

}  // namespace plait::transformer
