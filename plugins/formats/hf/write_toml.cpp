#include "plugins/formats/hf/write_toml.hpp"

#include <algorithm>
#include <cmath>

#include "plugins/formats/hf/toml_text.hpp"

namespace plait::hf {
namespace {

std::string list(const std::vector<double>& values) {
  std::string out;
  for (const double v : values) out += (out.empty() ? "" : ", ") + digits(v);
  return "[" + out + "]";
}

// Writes the tables of layers, the key behind each value.
class LayersToml {
 public:
  explicit LayersToml(const Model& model) : m_(model), k_(model.family->keys) {}

  std::string write() {
    embedding();
    blocks();
    begin("model.layers", m_.layer_norm ? "layer_norm" : "rms_norm", "norm");
    norm_options();
    begin("model.layers", "linear", "head");
    line("out", std::to_string(m_.vocabulary), "vocab_size");
    line("bias", "false", "");
    if (m_.tied) line("tie", "{weight = \"model.embed.weight\"}", "tie_word_embeddings");
    if (m_.final_softcap > 0) {
      begin("model.layers", "softcap", "");
      line("cap", digits(m_.final_softcap), "final_logit_softcapping");
    }
    return out_;
  }

 private:
  void begin(const std::string& table, const char* type, const std::string& name) {
    out_ += "\n[[" + table + "]]\n";
    line("type", toml_string(type), "");
    if (!name.empty()) line("name", toml_string(name), "");
  }
  void line(const std::string& key, const std::string& value, const std::string& from) {
    std::string text = key + " = " + value;
    if (!from.empty()) {
      text.resize(std::max<size_t>(text.size(), 30), ' ');
      text += "  # " + from;
    }
    out_ += text + "\n";
  }
  void line_if(bool write, const std::string& key, const std::string& value,
               const std::string& from) {
    if (write) line(key, value, from);
  }
  void norm_options() {
    line("eps", digits(m_.eps), k_.eps);
    line_if(m_.unit_offset, "unit_offset", "true", "");
  }

  void embedding() {
    begin("model.layers", "embedding", "embed");
    line("vocabulary", std::to_string(m_.vocabulary), "vocab_size");
    line("width", std::to_string(m_.width), k_.width);
    line_if(m_.embedding_scale != 1, "scale", digits(m_.embedding_scale),
            std::string("the square root of ") + k_.width);
    if (m_.learned_positions) {
      begin("model.layers", "positions", "positions");
      line("length", std::to_string(m_.positions), k_.positions);
    }
    if (m_.embedding_dropout > 0) {
      begin("model.layers", "dropout", "");
      line("p", digits(m_.embedding_dropout), k_.embedding_dropout);
    }
  }

  // Equal blocks are one entry; a pattern that repeats is a block of entries.
  void blocks() {
    const std::vector<Block>& all = m_.blocks;
    const size_t period = period_of(all), n = all.size() / period;
    // Copies are numbered: "h" becomes h0, h1, ...
    if (period == 1) return block("model.layers", all.size() == 1 ? "h0" : "h", all[0], all.size());
    size_t next = 0;
    if (n > 1) {
      begin("model.layers", "block", "");
      line("repeat", std::to_string(n), k_.blocks);
      for (size_t i = 0; i < period;) {
        const size_t equal = equal_from(all, i, period);
        block("model.layers.layers", "h", all[i], equal);
        i += equal;
      }
      next = n * period;
    }
    for (; next < all.size(); ++next)
      block("model.layers", "h" + std::to_string(next), all[next], 1);
  }
  static size_t period_of(const std::vector<Block>& all) {
    size_t period = 1;
    for (size_t i = 1; i < all.size(); ++i)
      if (!(all[i] == all[i % period])) period = i + 1;
    return period;
  }
  static size_t equal_from(const std::vector<Block>& all, size_t first, size_t end) {
    size_t n = 1;
    while (first + n < end && all[first + n] == all[first]) ++n;
    return n;
  }

  void block(const std::string& table, const std::string& name, const Block& block, size_t repeat) {
    const Family& f = *m_.family;
    begin(table, "decoder_block", name);
    line_if(repeat > 1, "repeat", std::to_string(repeat), table == "model.layers" ? k_.blocks : "");
    line("heads", std::to_string(m_.heads), k_.heads);
    line_if(m_.kv_heads != m_.heads, "kv_heads", std::to_string(m_.kv_heads),
            "num_key_value_heads");
    line_if(m_.head_dim * m_.heads != m_.width, "head_dim", std::to_string(m_.head_dim),
            "head_dim");
    block.experts ? experts() : line("ffn", std::to_string(m_.ffn), k_.ffn);
    line("mlp", toml_string(m_.mlp), k_.activation);
    line_if(!m_.layer_norm, "norm", "\"rms_norm\"", "");
    line_if(m_.norm_at != "pre", "norm_at", toml_string(m_.norm_at), "");
    norm_options();
    line_if(m_.qk_norm != "none", "qk_norm", toml_string(m_.qk_norm), "");
    line_if(m_.qkv_bias, "qkv_bias", "true", f.qkv_bias == Bias::kByKey ? "attention_bias" : "");
    line_if(m_.out_bias, "out_bias", "true", f.out_bias == Bias::kByKey ? "attention_bias" : "");
    line_if(m_.mlp_bias, "mlp_bias", "true", f.mlp_bias == Bias::kByKey ? "mlp_bias" : "");
    line_if(m_.attn_scale > 0, "attn_scale", digits(m_.attn_scale), "query_pre_attn_scalar");
    line_if(m_.softcap > 0, "softcap", digits(m_.softcap), "attn_logit_softcapping");
    line_if(m_.clip_qkv > 0, "clip_qkv", digits(m_.clip_qkv), "clip_qkv");
    line_if(block.window > 0, "window", std::to_string(block.window), "sliding_window");
    line_if(m_.attention_dropout > 0, "attention_dropout", digits(m_.attention_dropout),
            k_.attention_dropout);
    line_if(m_.dropout > 0, "dropout", digits(m_.dropout), k_.dropout ? k_.dropout : "");
    if (!m_.learned_positions) rope(block.rope);
  }

  void experts() {
    const Experts& e = m_.family->experts;
    line("experts", std::to_string(m_.experts), e.count);
    line("top_k", std::to_string(m_.top_k), "num_experts_per_tok");
    line_if(!m_.norm_top_k, "norm_top_k", "false", "norm_topk_prob");
    line_if(m_.balance > 0, "balance", digits(m_.balance),
            "router_aux_loss_coef / " + std::to_string(m_.blocks_of_experts()));
    line("ffn", std::to_string(m_.expert_ffn), e.ffn ? e.ffn : k_.ffn);
  }

  void rope(const Rope& r) {
    line("rope", "\"half\"", "");
    line("rope_theta", digits(r.theta), "rope_theta");
    line_if(r.share != 1, "rope_share", digits(r.share), "partial_rotary_factor");
    if (r.scaling == "none") return;
    const Rope usual;
    line("rope_scaling", toml_string(r.scaling), "rope_type");
    line("rope_factor", digits(r.factor), "factor");
    line_if(r.original > 0, "rope_original", std::to_string(r.original),
            "original_max_position_embeddings");
    line_if(r.low != usual.low, "rope_low", digits(r.low), "low_freq_factor");
    line_if(r.high != usual.high, "rope_high", digits(r.high), "high_freq_factor");
    line_if(r.beta_fast != usual.beta_fast, "rope_beta_fast", digits(r.beta_fast), "beta_fast");
    line_if(r.beta_slow != usual.beta_slow, "rope_beta_slow", digits(r.beta_slow), "beta_slow");
    line_if(r.mscale != 0, "rope_mscale", digits(r.mscale), "mscale");
    line_if(r.mscale_all_dim != 0, "rope_mscale_all_dim", digits(r.mscale_all_dim),
            "mscale_all_dim");
    line_if(r.attention != 0, "rope_attention", digits(r.attention), "attention_factor");
    line_if(!r.short_factors.empty(), "rope_short", list(r.short_factors), "short_factor");
    line_if(!r.long_factors.empty(), "rope_long", list(r.long_factors), "long_factor");
  }

  const Model& m_;
  const Keys& k_;
  std::string out_;
};

std::string generation_toml(const Speech& speech, int64_t length) {
  std::string text = "[generate]\nlength = " + std::to_string(length) + "\n";
  if (!speech.end.empty()) {
    std::string ids;
    for (const int64_t id : speech.end) ids += (ids.empty() ? "" : ", ") + std::to_string(id);
    text += "end = [" + ids + "]  # eos_token_id\n";
  }
  if (!speech.chat_template.empty())
    text +=
        "chat_template = " + toml_string(speech.chat_template) +
        "  # by the markers of the model's own template; a default system prompt is not in it\n";
  if (!speech.tokenizer.empty())
    text += "\n[tokenizer]\ntype = " + toml_string(speech.tokenizer) +
            "\npath = " + toml_string(speech.file) + "\n";
  return text + "\n";
}

}  // namespace

std::string name_of_folder(const std::string& folder) {
  std::string path = folder;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::string name = path.substr(path.rfind('/') + 1);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') c = '-';
  while (!name.empty() && name.front() == '-') name.erase(0, 1);
  return name.empty() ? "model" : name;
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

std::string experiment_toml(const Model& m, const std::string& folder, const Speech& speech) {
  const bool biases = m.layer_norm || m.qkv_bias || m.out_bias || m.mlp_bias;
  const int64_t length = m.positions > 0 ? std::min<int64_t>(m.positions, 1024) : 1024;
  return "# A model of the family " + std::string(m.family->type) + " from " + one_line(folder) +
         ".\n# Behind each value is its key in config.json. The tokens are made by\n"
         "#   plait data tokenize TEXT --tokenizer FOLDER --append-eod --out train\n\n"
         "[run]\nname = " +
         toml_string(name_of_folder(folder)) +
         "\nsteps = 1000\n\n[batch]\nglobal = 8\nmicro = 1\n\n"
         "[data.train]\ntype = \"tokens\"\npath = \"train.bin\"\nlength = " +
         std::to_string(length) +
         (m.positions > 0
              ? "  # at most " + std::to_string(m.positions) + ", " + m.family->keys.positions
              : "") +
         "\nshuffle = true\n\n[optimizer]\ntype = \"adamw\"\nlearning_rate = 1e-5\nweight_decay = "
         "0.1\n"
         "clip_grad_norm = 1.0\n\n[[optimizer.groups]]\nmatch = " +
         (biases ? "[\"*.gain\", \"*.bias\"]" : "[\"*.gain\"]") +
         "\nweight_decay = 0\n\n[loss]\ntype = \"cross_entropy\"\n\n" +
         generation_toml(speech, length) + "[model]\nload = \"weights.map.json\"\n" +
         (m.positions > 0 && !m.family->learned_positions
              ? "context_length = " + std::to_string(m.positions) + "  # " +
                    m.family->keys.positions + "\n"
              : "") +
         LayersToml(m).write();
}

}  // namespace plait::hf
