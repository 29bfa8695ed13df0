#include "plugins/formats/hf/read_config.hpp"

#include <algorithm>
#include <cmath>

namespace plait::hf {
namespace {

using support::JsonPlace;

constexpr int64_t kMost = 1 << 30, kMostBlocks = 10000;
constexpr int64_t kMostExperts = 1 << 17;  // of all blocks: each is three names

int64_t whole(const JsonPlace& place, int64_t fallback, int64_t most = kMost) {
  return place.null() ? fallback : place.whole(1, most);
}
double number(const JsonPlace& place, double fallback) {
  return place.null() ? fallback : place.number();
}
double probability(const JsonPlace& place, double fallback) {
  const double p = number(place, fallback);
  if (p < 0 || p >= 1)
    place.bad("found " + place.value().dump() + ", expected a number from 0 to below 1");
  return p;
}
double at_least_0(const JsonPlace& place) {
  const double v = number(place, 0);
  if (v < 0) place.bad("found " + place.value().dump() + ", expected a number from 0 on");
  return v;
}
double positive(const JsonPlace& place, double fallback) {
  const double v = number(place, fallback);
  if (!(v > 0)) place.bad("found " + place.value().dump() + ", expected a number above 0");
  return v;
}

// Reads one config.json. Each part fills in its fields of the model.
class ConfigReader {
 public:
  explicit ConfigReader(const JsonPlace& config) : c_(config) {}

  Model read() {
    c_.object();
    read_family();
    refuse_others();
    read_sizes();
    read_parts();
    read_blocks();
    read_experts();
    return std::move(m_);
  }

 private:
  void read_family() {
    const JsonPlace type = c_["model_type"];
    f_ = find_family(type.text());
    if (!f_) type.unknown(family_names());
    m_.family = f_;
    m_.layer_norm = f_->layer_norm;
    m_.norm_at = f_->norm_at;
    m_.qk_norm = f_->qk_norm;
    m_.unit_offset = f_->unit_offset;
    m_.learned_positions = f_->learned_positions;
  }

  // What this library computes otherwise. A wrong result would go unnoticed.
  void refuse_others() {
    const auto refuse = [](const JsonPlace& place) {
      place.bad("found " + place.value().dump() + ", which this engine does not compute",
                PLAIT_ERR_UNIMPLEMENTED);
    };
    for (const char* key :
         {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention",
          "use_bidirectional_attention", "is_encoder_decoder"})
      if (c_[key].flag(false)) refuse(c_[key]);
    if (!c_["scale_attn_weights"].flag(true)) refuse(c_["scale_attn_weights"]);
    if (number(c_["router_jitter_noise"], 0) != 0) refuse(c_["router_jitter_noise"]);
    if (!c_["quantization_config"].null())
      c_["quantization_config"].bad("the weights are quantized; take those in bf16, f16 or f32",
                                    PLAIT_ERR_UNIMPLEMENTED);
  }

  void read_sizes() {
    const Keys& k = f_->keys;
    m_.vocabulary = c_["vocab_size"].whole(1, kMost);
    m_.width = c_[k.width].whole(1, kMost);
    m_.heads = c_[k.heads].whole(1, kMost);
    m_.blocks.resize(static_cast<size_t>(c_[k.blocks].whole(1, kMostBlocks)));
    // null stands for the number of heads, a missing key for the family's default.
    const JsonPlace kv_heads = c_["num_key_value_heads"];
    const bool given = c_.object().contains("num_key_value_heads");
    m_.kv_heads = whole(kv_heads, given || f_->kv_heads == 0 ? m_.heads : f_->kv_heads);
    if (m_.heads % m_.kv_heads != 0)
      kv_heads.bad("there are " + std::to_string(m_.kv_heads) + " for " + std::to_string(m_.heads) +
                   " heads, expected a divisor");
    if (f_->head_dim == 0 && c_["head_dim"].null() && m_.width % m_.heads != 0)
      c_[k.heads].bad("there are " + std::to_string(m_.heads) + " for a width of " +
                      std::to_string(m_.width) + ", expected a divisor");
    m_.head_dim = whole(c_["head_dim"], f_->head_dim ? f_->head_dim : m_.width / m_.heads);
    m_.ffn = f_->learned_positions ? whole(c_[k.ffn], 4 * m_.width) : c_[k.ffn].whole(1, kMost);
    m_.positions = f_->learned_positions ? c_[k.positions].whole(1, kMost)
                                         : whole(c_[k.positions], 0, int64_t{1} << 40);
  }

  bool bias(Bias rule, const char* key) const {
    return rule == Bias::kAlways || (rule == Bias::kByKey && c_[key].flag(false));
  }

  void read_parts() {
    const Keys& k = f_->keys;
    m_.eps = positive(c_[k.eps], f_->eps);
    const JsonPlace activation = c_[k.activation];
    m_.mlp = mlp_of(activation.text(f_->activation), f_->gated);
    const std::string known = activation_names(f_->gated);
    if (m_.mlp.empty() && f_->gated && !mlp_of(activation.text(f_->activation), false).empty())
      activation.bad("'" + activation.text(f_->activation) + "' is not supported in a gated MLP, " +
                         "which " + std::string(f_->type) + " has; supported are " + known,
                     PLAIT_ERR_UNIMPLEMENTED);
    if (m_.mlp.empty()) activation.unknown(known);
    m_.qkv_bias = bias(f_->qkv_bias, "attention_bias");
    m_.out_bias = bias(f_->out_bias, "attention_bias");
    m_.mlp_bias = bias(f_->mlp_bias, "mlp_bias");
    m_.tied = c_["tie_word_embeddings"].flag(f_->tied);
    m_.attention_dropout = probability(c_[k.attention_dropout], f_->dropout);
    if (k.dropout) m_.dropout = probability(c_[k.dropout], f_->dropout);
    if (k.embedding_dropout)
      m_.embedding_dropout = probability(c_[k.embedding_dropout], f_->dropout);
    if (f_->scaled_embedding) {
      m_.embedding_scale = std::sqrt(static_cast<double>(m_.width));
      m_.attn_scale = 1 / std::sqrt(positive(c_["query_pre_attn_scalar"], 256));
    }
    if (f_->softcaps) m_.softcap = cap("attn_logit_softcapping", f_->softcap);
    if (f_->final_cap) m_.final_softcap = cap("final_logit_softcapping", f_->final_softcap);
    if (f_->clips_qkv) m_.clip_qkv = cap("clip_qkv", 0);
  }

  // The library's name of this key differs between its versions.
  JsonPlace expert_count() const {
    const JsonPlace one = c_["num_experts"], other = c_["num_local_experts"];
    if (!one.null() && !other.null() && one.value() != other.value())
      other.bad("found " + other.value().dump() + ", and num_experts is " + one.value().dump() +
                ", expected the same");
    if (one.null() && other.null()) return c_[f_->experts.count];
    return one.null() ? other : one;
  }

  void read_experts() {
    const Experts& e = f_->experts;
    if (!e.count) return;
    const JsonPlace count = expert_count(), top_k = c_["num_experts_per_tok"];
    m_.experts = count.null() ? e.usual_count : count.whole(e.dense_blocks ? 0 : 1, kMostExperts);
    const std::vector<bool> with =
        e.dense_blocks ? blocks_with_experts() : std::vector<bool>(m_.blocks.size(), true);
    for (size_t i = 0; i < with.size(); ++i) m_.blocks[i].experts = m_.experts > 0 && with[i];
    const int64_t blocks = m_.blocks_of_experts();
    if (blocks == 0) return;
    if (m_.experts > kMostExperts / blocks)
      count.bad("there are " + std::to_string(m_.experts) + " in each of " +
                std::to_string(blocks) + " blocks, expected at most " +
                std::to_string(kMostExperts) + " in all");
    m_.top_k = whole(top_k, e.usual_top_k);
    if (m_.top_k > m_.experts)
      top_k.bad("a token has " + std::to_string(m_.top_k) + " of " + std::to_string(m_.experts) +
                " experts, expected at most as many");
    m_.expert_ffn = e.ffn ? whole(c_[e.ffn], e.usual_ffn) : m_.ffn;
    m_.norm_top_k = !e.norm_by_key || c_["norm_topk_prob"].flag(false);
    // The library adds the term with this switch alone; of all blocks it makes one.
    if (c_["output_router_logits"].flag(false)) {
      const JsonPlace factor = c_["router_aux_loss_coef"];
      m_.balance =
          (factor.null() ? e.usual_balance : at_least_0(factor)) / static_cast<double>(blocks);
    }
  }

  std::vector<bool> blocks_with_experts() const {
    const auto step = static_cast<size_t>(whole(c_["decoder_sparse_step"], 1));
    std::vector<bool> with;
    for (size_t i = 0; i < m_.blocks.size(); ++i) with.push_back((i + 1) % step == 0);
    const JsonPlace without = c_["mlp_only_layers"];
    for (size_t i = 0; !without.null() && i < without.size(); ++i)
      if (const auto block = static_cast<size_t>(without[i].whole(0, kMost)); block < with.size())
        with[block] = false;
    return with;
  }

  // null switches a cap off; a missing key is the family's.
  double cap(const char* key, double fallback) const {
    if (!c_.object().contains(key)) return fallback;
    return c_[key].null() ? 0 : positive(c_[key], 0);
  }

  void read_blocks() {
    read_windows();
    if (f_->learned_positions) return;
    const Rope whole_rope = read_rope(false);
    const Rope local = f_->local_rope ? read_rope(true) : whole_rope;
    for (Block& block : m_.blocks) block.rope = block.window > 0 ? local : whole_rope;
  }

  void read_windows() {
    if (f_->windows == Windows::kNone) return;
    const JsonPlace size = c_["sliding_window"], types = c_["layer_types"];
    const bool given = c_.object().contains("sliding_window");
    int64_t window = whole(size, given ? 0 : f_->window, int64_t{1} << 40);
    if ((f_->windows == Windows::kFromLayer || f_->windows == Windows::kSwitched) &&
        !c_["use_sliding_window"].flag(false))
      window = 0;
    if (!types.null() && types.size() != m_.blocks.size())
      types.bad("it has " + std::to_string(types.size()) + " entries for " +
                std::to_string(m_.blocks.size()) + " blocks");
    // Families whose blocks are all alike do not read the types.
    for (size_t i = 0; i < m_.blocks.size(); ++i)
      if (types.null() || f_->windows_alike() ? by_rule(i) : by_type(types[i]))
        m_.blocks[i].window = window;
  }

  static bool by_type(const JsonPlace& type) {
    if (type.text() == "sliding_attention") return true;
    if (type.text() != "full_attention") type.unknown("full_attention, sliding_attention");
    return false;
  }

  bool by_rule(size_t i) const {
    const auto block = static_cast<int64_t>(i);
    switch (f_->windows) {
      case Windows::kFromLayer: {
        const JsonPlace first = c_["max_window_layers"];
        return block >= (first.null() ? 28 : first.whole(0, kMost));
      }
      case Windows::kEven:
        return i % 2 == 0;
      case Windows::kPattern: {
        const JsonPlace pattern = c_["sliding_window_pattern"];
        return (block + 1) % whole(pattern.null() ? c_["_sliding_window_pattern"] : pattern, 6) !=
               0;
      }
      default:
        return f_->windows_alike();
    }
  }

  // Version 5 has an object rope_parameters, of which gemma3_text has one for each type of layer;
  // version 4 rope_theta and, where angles are scaled, rope_scaling.
  Rope read_rope(bool local) const {
    JsonPlace r = c_["rope_parameters"];
    const bool old = r.null();
    if (old) r = c_["rope_scaling"];
    if (!old && f_->local_rope && r.object().contains("full_attention"))
      r = r[local ? "sliding_attention" : "full_attention"];
    Rope rope;
    const JsonPlace theta = r["rope_theta"].null() ? c_["rope_theta"] : r["rope_theta"];
    if (old && local)
      rope.theta = positive(c_["rope_local_base_freq"], 10000);
    else
      rope.theta = positive(theta, f_->theta);
    read_share(r, rope);
    if (!(old && local) && !r.null()) read_scaling(r, rope);
    return rope;
  }

  void read_share(const JsonPlace& r, Rope& rope) const {
    const char* key = "partial_rotary_factor";
    const JsonPlace share = r[key].null() ? c_[key] : r[key];
    rope.share = positive(share, 1);
    if (rope.share > 1) share.bad("found " + share.value().dump() + ", expected at most 1");
    if (rope.share != 1 && !f_->rope_share)
      share.bad(
          "found " + share.value().dump() + ", which the family " + f_->type + " does not have",
          PLAIT_ERR_UNIMPLEMENTED);
  }

  void read_scaling(const JsonPlace& r, Rope& rope) const {
    const JsonPlace type = r["rope_type"].null() ? r["type"] : r["rope_type"];
    const std::string name = type.text("default");
    if (name == "default") return;
    rope.scaling = name == "su" ? "longrope" : name;
    if (rope.scaling != "linear" && rope.scaling != "llama3" && rope.scaling != "yarn" &&
        rope.scaling != "longrope")
      type.unknown("default, linear, llama3, yarn, longrope");
    // That of the model wins over the one inside the object.
    const char* key = "original_max_position_embeddings";
    rope.original = whole(c_[key].null() ? r[key] : c_[key], 0);
    if (rope.scaling == "linear") rope.original = 0;
    if (rope.scaling == "yarn" && rope.original == 0) rope.original = m_.positions;
    if (rope.scaling != "linear" && rope.original == 0) r[key].whole(1, kMost);
    // The library reads this key for these two only.
    if ((rope.scaling == "yarn" || rope.scaling == "longrope") && !r["attention_factor"].null())
      rope.attention = positive(r["attention_factor"], 1);
    if (rope.scaling == "longrope") return read_longrope(r, rope);
    rope.factor = positive(r["factor"], 0);
    if (rope.scaling == "llama3") {
      rope.low = positive(r["low_freq_factor"], 0);
      rope.high = positive(r["high_freq_factor"], 0);
    } else if (rope.scaling == "yarn") {
      rope.beta_fast = positive(r["beta_fast"], 32);
      rope.beta_slow = positive(r["beta_slow"], 1);
      rope.mscale = at_least_0(r["mscale"]);
      rope.mscale_all_dim = at_least_0(r["mscale_all_dim"]);
      if (!r["truncate"].flag(true))
        r["truncate"].bad("found false, which this engine does not compute",
                          PLAIT_ERR_UNIMPLEMENTED);
    }
  }

  void read_longrope(const JsonPlace& r, Rope& rope) const {
    rope.factor = r["factor"].null() ? static_cast<double>(std::max(m_.positions, rope.original)) /
                                           static_cast<double>(rope.original)
                                     : positive(r["factor"], 1);
    const auto pairs = static_cast<size_t>(static_cast<double>(m_.head_dim) * rope.share) / 2;
    const auto read = [&](const char* key) {
      const JsonPlace list = r[key];
      std::vector<double> factors;
      for (size_t i = 0; i < list.size(); ++i) factors.push_back(positive(list[i], 0));
      if (factors.size() != pairs)
        list.bad("it has " + std::to_string(factors.size()) + " numbers, expected " +
                 std::to_string(pairs) + ", one for each pair of channels");
      return factors;
    };
    rope.short_factors = read("short_factor");
    rope.long_factors = read("long_factor");
  }

  const JsonPlace& c_;
  const Family* f_ = nullptr;
  Model m_;
};

}  // namespace

Model read_config(const support::JsonPlace& config) { return ConfigReader(config).read(); }

}  // namespace plait::hf
