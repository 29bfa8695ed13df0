#include "plugins/formats/hf/write_config.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace plait::hf {
namespace {

using Json = nlohmann::ordered_json;

// A number as JSON writers of Python write it: whole numbers above 2^53 stay real.
Json scalar(double v) { return v; }

// 1/s², without the rounding of a square root and back.
Json inverse_square(double s) {
  const double v = 1 / (s * s), near = std::round(v);
  if (std::abs(v - near) <= 1e-9 * v) return static_cast<int64_t>(near);
  return v;
}

// Without the rounding of a quotient and back.
double rounded(double v) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), v, std::chars_format::general, 15).ptr;
  std::from_chars(text.data(), end, v);
  return v;
}

class ConfigWriter {
 public:
  ConfigWriter(const Model& model, Json like)
      : m_(model), f_(*model.family), k_(f_.keys), c_(std::move(like)) {}

  Json write(const std::string& dtype) {
    c_["model_type"] = f_.type;
    c_["architectures"] = Json::array({f_.architecture});
    sizes();
    parts();
    experts();
    windows();
    if (!f_.learned_positions) rope();
    const char* name = dtype == "bf16"  ? "bfloat16"
                       : dtype == "f16" ? "float16"
                       : dtype == "f64" ? "float64"
                                        : "float32";
    c_["torch_dtype"] = name;
    c_["dtype"] = name;
    return std::move(c_);
  }

 private:
  // A key that is written where the model needs it, or where the file had it.
  void set(const char* key, const Json& value, bool needed = true) {
    if (key && (needed || c_.contains(key))) c_[key] = value;
  }

  void sizes() {
    c_["vocab_size"] = m_.vocabulary;
    c_[k_.width] = m_.width;
    c_[k_.blocks] = m_.blocks.size();
    c_[k_.heads] = m_.heads;
    // null, or nothing, stands for four times the width in GPT-2.
    const bool usual_ffn = f_.learned_positions && m_.ffn == 4 * m_.width;
    // Without an MLP beside experts of a width of their own it decides nothing, and stays.
    const bool no_mlp =
        f_.experts.ffn && m_.blocks_of_experts() == static_cast<int64_t>(m_.blocks.size());
    if (no_mlp ? !c_.contains(k_.ffn)
               : !usual_ffn || (c_.contains(k_.ffn) && !c_[k_.ffn].is_null()))
      c_[k_.ffn] = m_.ffn;
    if (f_.learned_positions) {
      c_[k_.positions] = m_.positions;
      return;
    }
    c_["num_key_value_heads"] = m_.kv_heads;
    // null stands for the width divided by the heads.
    const bool usual_dim = f_.head_dim == 0 && m_.head_dim * m_.heads == m_.width;
    if (!usual_dim || (c_.contains("head_dim") && !c_["head_dim"].is_null()))
      c_["head_dim"] = m_.head_dim;
    if (m_.positions > 0)
      c_[k_.positions] = m_.positions;
    else if (!c_.contains(k_.positions))
      c_[k_.positions] = usual_positions();
  }
  int64_t usual_positions() const {
    const Rope& r = m_.blocks[0].rope;
    return r.original > 0 ? static_cast<int64_t>(static_cast<double>(r.original) * r.factor) : 2048;
  }

  void parts() {
    c_[k_.eps] = scalar(m_.eps);
    set_activation();
    c_["tie_word_embeddings"] = m_.tied;
    if (f_.qkv_bias == Bias::kByKey) set("attention_bias", m_.qkv_bias);
    if (f_.mlp_bias == Bias::kByKey) set("mlp_bias", m_.mlp_bias);
    c_[k_.attention_dropout] = scalar(m_.attention_dropout);
    set(k_.dropout, scalar(m_.dropout));
    set(k_.embedding_dropout, scalar(m_.embedding_dropout));
    if (f_.scaled_embedding)
      c_["query_pre_attn_scalar"] =
          m_.attn_scale > 0 ? inverse_square(m_.attn_scale) : Json(m_.head_dim);
    const auto cap = [](double v) { return v > 0 ? scalar(v) : Json(); };
    if (f_.softcaps) c_["attn_logit_softcapping"] = cap(m_.softcap);
    if (f_.final_cap) c_["final_logit_softcapping"] = cap(m_.final_softcap);
    if (f_.clips_qkv) c_["clip_qkv"] = cap(m_.clip_qkv);
  }

  void experts() {
    const Experts& e = f_.experts;
    if (!e.count) return;
    const int64_t n = m_.blocks_of_experts();
    if (e.dense_blocks) {
      Json without = Json::array();
      for (size_t i = 0; i < m_.blocks.size(); ++i)
        if (!m_.blocks[i].experts) without.push_back(i);
      c_["mlp_only_layers"] = without;
      c_["decoder_sparse_step"] = 1;
    }
    if (n == 0) return;
    for (const char* key : {"num_experts", "num_local_experts"})
      set(key, m_.experts, key == std::string_view(e.count));
    c_["num_experts_per_tok"] = m_.top_k;
    if (e.ffn) c_[e.ffn] = m_.expert_ffn;
    if (e.norm_by_key) c_["norm_topk_prob"] = m_.norm_top_k;
    set("output_router_logits", m_.balance > 0, m_.balance > 0);
    if (m_.balance > 0) c_["router_aux_loss_coef"] = rounded(m_.balance * static_cast<double>(n));
  }
  // The word of the file, if it means the same: "gelu_new" is "gelu_pytorch_tanh".
  void set_activation() {
    const std::string had = c_.contains(k_.activation) && c_[k_.activation].is_string()
                                ? c_[k_.activation].get<std::string>()
                                : f_.activation;
    c_[k_.activation] = activation_of(m_.mlp, had);
  }

  void windows() {
    if (f_.windows == Windows::kNone) return;
    const auto with = std::find_if(m_.blocks.begin(), m_.blocks.end(),
                                   [](const Block& b) { return b.window > 0; });
    const bool any = with != m_.blocks.end();
    if (f_.windows == Windows::kFromLayer || f_.windows == Windows::kSwitched)
      c_["use_sliding_window"] = any;
    // Without a window the size decides nothing, and stays; mistral and phi3 have no other switch.
    if (any || f_.windows == Windows::kAll)
      c_["sliding_window"] = any ? Json(with->window) : Json();
    if (f_.windows == Windows::kAll) return;
    Json types = Json::array();
    for (const Block& b : m_.blocks)
      types.push_back(b.window > 0 ? "sliding_attention" : "full_attention");
    c_["layer_types"] = types;
  }

  void rope() {
    const auto of = [&](bool windowed) {
      const auto at = std::find_if(m_.blocks.begin(), m_.blocks.end(),
                                   [&](const Block& b) { return (b.window > 0) == windowed; });
      return at == m_.blocks.end() ? m_.blocks[0].rope : at->rope;
    };
    if (!f_.local_rope) {
      const Rope& r = m_.blocks[0].rope;
      old_keys(r);
      c_["rope_parameters"] = parameters(r);
      if (f_.rope_share) c_["partial_rotary_factor"] = scalar(r.share);
      return;
    }
    old_keys(of(false));
    c_["rope_local_base_freq"] = scalar(of(true).theta);
    c_["rope_parameters"] = Json::object();
    c_["rope_parameters"]["sliding_attention"] = parameters(of(true));
    c_["rope_parameters"]["full_attention"] = parameters(of(false));
  }

  void old_keys(const Rope& r) {
    c_["rope_theta"] = scalar(r.theta);
    Json scaling = parameters(r);
    scaling.erase("rope_theta");
    scaling.erase("partial_rotary_factor");
    c_["rope_scaling"] = r.scaling == "none" ? Json() : scaling;
    if (r.scaling == "longrope") c_["original_max_position_embeddings"] = r.original;
  }

  Json parameters(const Rope& r) const {
    const Rope usual;
    Json p = Json::object();
    p["rope_theta"] = scalar(r.theta);
    p["rope_type"] = r.scaling == "none" ? "default" : r.scaling;
    if (f_.rope_share) p["partial_rotary_factor"] = scalar(r.share);
    if (r.scaling == "none") return p;
    p["factor"] = scalar(r.factor);
    if (r.original > 0) p["original_max_position_embeddings"] = r.original;
    if (r.scaling == "llama3") {
      p["low_freq_factor"] = scalar(r.low);
      p["high_freq_factor"] = scalar(r.high);
    }
    if (r.scaling == "longrope") {
      p["short_factor"] = r.short_factors;
      p["long_factor"] = r.long_factors;
    }
    if (r.beta_fast != usual.beta_fast) p["beta_fast"] = scalar(r.beta_fast);
    if (r.beta_slow != usual.beta_slow) p["beta_slow"] = scalar(r.beta_slow);
    if (r.mscale != 0) p["mscale"] = scalar(r.mscale);
    if (r.mscale_all_dim != 0) p["mscale_all_dim"] = scalar(r.mscale_all_dim);
    if (r.attention != 0) p["attention_factor"] = scalar(r.attention);
    return p;
  }

  const Model& m_;
  const Family& f_;
  const Keys& k_;
  Json c_;
};

}  // namespace

nlohmann::ordered_json config_json(const Model& model, const nlohmann::ordered_json& like,
                                   const std::string& dtype) {
  return ConfigWriter(model, like).write(dtype);
}

}  // namespace plait::hf
