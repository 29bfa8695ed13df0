#include "plugins/formats/hf/read_layers.hpp"

#include <plait/plugin.hpp>

#include <algorithm>

namespace plait::hf {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& what) {
  fail(PLAIT_ERR_UNIMPLEMENTED, "[format.hf] " + what);
}

// One layer; messages name it.
class Layer {
 public:
  explicit Layer(const json& layer) : layer_(layer), options_(layer.at("options")) {}
  std::string type() const { return layer_.at("type"); }
  std::string name() const { return layer_.at("name"); }
  int64_t whole(const char* option) const { return options_.at(option); }
  double real(const char* option) const { return options_.at(option); }
  bool flag(const char* option) const { return options_.at(option); }
  std::string text(const char* option) const { return options_.at(option); }
  std::vector<double> reals(const char* option) const { return options_.at(option); }
  const json& tie() const { return layer_.at("tie"); }
  // The layer reads the one before it, as all layers of these families do.
  void check_chain() const {
    if (!layer_.at("from").empty())
      bad("from", "names its input; a layer of these families reads the one before it");
  }
  template <class T>
  void check(const char* option, const T& expected) const {
    if (options_.at(option) != json(expected)) bad(option, "is " + options_.at(option).dump());
  }
  void same_option(const Layer& first, const char* option) const {
    if (options_.at(option) != first.options_.at(option))
      bad(option, "is " + options_.at(option).dump() + " and " + first.options_.at(option).dump() +
                      " in '" + first.name() + "'");
  }
  [[noreturn]] void bad(const std::string& option, const std::string& what) const {
    refuse("layer '" + name() + "' (" + type() + "): " + option + " " + what +
           ", which no model of the library has");
  }

 private:
  const json &layer_, &options_;
};

class LayersReader {
 public:
  explicit LayersReader(const json& model) {
    for (const json& layer : model.at("layers")) layers_.emplace_back(layer);
  }

  Model read() {
    read_embedding();
    read_blocks();
    read_end();
    if (next_ < layers_.size()) unexpected("the end of the model");
    return std::move(m_);
  }

 private:
  const Layer* take(const char* type) {
    if (next_ == layers_.size() || layers_[next_].type() != type) return nullptr;
    layers_[next_].check_chain();
    return &layers_[next_++];
  }
  const Layer& need(const char* type, const char* name) {
    const Layer* layer = take(type);
    if (!layer) unexpected(std::string("a layer ") + type);
    if (layer->name() != name)
      refuse("layer '" + layer->name() + "' (" + type + "): its name must be '" + name +
             "' for this format");
    return *layer;
  }
  [[noreturn]] void unexpected(const std::string& expected) const {
    refuse((next_ < layers_.size()
                ? "layer '" + layers_[next_].name() + "' (" + layers_[next_].type() + ") stands"
                : std::string("the model ends")) +
           " where the models of the library have " + expected +
           ": embedding, positions or none, dropout or none, decoder_block, layer_norm or "
           "rms_norm, linear, softcap or none");
  }

  void read_embedding() {
    const Layer& embed = need("embedding", "embed");
    m_.vocabulary = embed.whole("vocabulary");
    m_.width = embed.whole("width");
    m_.embedding_scale = embed.real("scale");
    if (next_ < layers_.size() && layers_[next_].type() == "positions") {
      m_.learned_positions = true;
      m_.positions = need("positions", "positions").whole("length");
    }
    if (const Layer* dropout = take("dropout")) m_.embedding_dropout = dropout->real("p");
  }

  void read_blocks() {
    const Layer *first = nullptr, *with_experts = nullptr, *without = nullptr;
    for (; next_ < layers_.size() && layers_[next_].type() == "decoder_block";) {
      const Layer& layer = need("decoder_block", ("h" + std::to_string(m_.blocks.size())).c_str());
      if (!first) read_block(*(first = &layer));
      for (const char* option :
           {"norm", "norm_at", "heads", "kv_heads", "head_dim", "mlp", "eps", "unit_offset",
            "qk_norm", "bias", "qkv_bias", "out_bias", "mlp_bias", "attn_scale", "softcap",
            "clip_qkv", "attention_dropout", "dropout"})
        layer.same_option(*first, option);
      const bool experts = layer.whole("experts") > 0;
      const Layer*& alike = experts ? with_experts : without;
      if (!alike) experts ? read_experts(*(alike = &layer)) : read_mlp(*(alike = &layer));
      layer.same_option(*alike, "ffn");
      if (experts)
        for (const char* option : {"experts", "top_k", "norm_top_k", "balance"})
          layer.same_option(*alike, option);
      layer.check("causal", true);
      if (!m_.learned_positions) layer.check("rope", "half");
      m_.blocks.push_back(
          {layer.whole("window"), m_.learned_positions ? Rope() : rope(layer), experts});
      if (m_.learned_positions) layer.check("rope", "none");
    }
    if (!first) unexpected("a layer decoder_block");
    if (!without) m_.ffn = m_.expert_ffn;
  }

  int64_t inner_width(const Layer& b) const {
    return b.whole("ffn") ? b.whole("ffn") : 4 * m_.width;
  }
  void read_mlp(const Layer& b) { m_.ffn = inner_width(b); }
  void read_experts(const Layer& b) {
    m_.expert_ffn = inner_width(b);
    m_.experts = b.whole("experts");
    m_.top_k = b.whole("top_k");
    m_.norm_top_k = b.flag("norm_top_k");
    m_.balance = b.real("balance");
  }

  void read_block(const Layer& b) {
    m_.layer_norm = b.text("norm") == "layer_norm";
    m_.norm_at = b.text("norm_at");
    m_.heads = b.whole("heads");
    m_.kv_heads = b.whole("kv_heads") ? b.whole("kv_heads") : m_.heads;
    m_.head_dim = b.whole("head_dim") ? b.whole("head_dim") : m_.width / m_.heads;
    m_.mlp = b.text("mlp");
    m_.eps = b.real("eps");
    m_.unit_offset = b.flag("unit_offset");
    m_.qk_norm = b.text("qk_norm");
    const bool all = b.flag("bias");
    m_.qkv_bias = all || b.flag("qkv_bias");
    m_.out_bias = all || b.flag("out_bias");
    m_.mlp_bias = all || b.flag("mlp_bias");
    m_.attn_scale = b.real("attn_scale");
    m_.softcap = b.real("softcap");
    m_.clip_qkv = b.real("clip_qkv");
    m_.attention_dropout = b.real("attention_dropout");
    m_.dropout = b.real("dropout");
  }

  static Rope rope(const Layer& b) {
    Rope r;
    r.theta = b.real("rope_theta");
    r.share = b.real("rope_share");
    r.scaling = b.text("rope_scaling");
    if (r.scaling == "none") return r;
    r.factor = b.real("rope_factor");
    r.low = b.real("rope_low");
    r.high = b.real("rope_high");
    r.original = b.whole("rope_original");
    r.beta_fast = b.real("rope_beta_fast");
    r.beta_slow = b.real("rope_beta_slow");
    r.mscale = b.real("rope_mscale");
    r.mscale_all_dim = b.real("rope_mscale_all_dim");
    r.attention = b.real("rope_attention");
    r.short_factors = b.reals("rope_short");
    r.long_factors = b.reals("rope_long");
    return r;
  }

  void read_end() {
    const Layer& norm = need(m_.layer_norm ? "layer_norm" : "rms_norm", "norm");
    norm.check("eps", m_.eps);
    norm.check("unit_offset", m_.unit_offset);
    const Layer& head = need("linear", "head");
    head.check("bias", false);
    head.check("out", m_.vocabulary);
    const json& tie = head.tie();
    if (!tie.empty()) {
      if (tie.value("weight", "") != "embed.weight") head.bad("tie", "is " + tie.dump());
      m_.tied = true;
    }
    if (const Layer* cap = take("softcap")) m_.final_softcap = cap->real("cap");
  }

  std::vector<Layer> layers_;
  size_t next_ = 0;
  Model m_;
};

}  // namespace

Model read_layers(const json& model, const std::string& family) {
  Model m = LayersReader(model).read();
  std::string faults;
  for (const Family& f : families()) {
    if (!family.empty() && family != f.type) continue;
    const std::string fault = mismatch(m, f);
    if (fault.empty()) {
      m.family = &f;
      return m;
    }
    faults += std::string("\n  ") + f.type + ": " + fault;
  }
  if (faults.empty())
    fail(PLAIT_ERR_CONFIG,
         "[format.hf] family '" + family + "' is not known; known are " + family_names());
  refuse((family.empty() ? "no family of the library can describe this model:"
                         : "the family cannot describe this model:") +
         faults);
}

}  // namespace plait::hf
