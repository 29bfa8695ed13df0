#include "plugins/formats/hf/places.hpp"

namespace plait::hf {
namespace {

// Writes the places of one block.
class BlockPlaces {
 public:
  BlockPlaces(const Model& model, size_t block, const std::string& prefix, const FormatOutput& out)
      : m_(model),
        out_(out),
        ours_("h" + std::to_string(block) + "."),
        theirs_(prefix + (model.family->learned_positions ? "h." : "layers.") +
                std::to_string(block) + ".") {}

  void gpt2() {
    norm("attn_norm", "ln_1");
    norm("mlp_norm", "ln_2");
    for (int i = 0; i < 3; ++i) {
      const char* part[] = {"attn.q", "attn.k", "attn.v"};
      rows(std::string(part[i]) + ".weight", "attn.c_attn.weight", true, i * m_.width, m_.width);
      rows(std::string(part[i]) + ".bias", "attn.c_attn.bias", false, i * m_.width, m_.width);
    }
    conv("attn.out", "attn.c_proj");
    conv("mlp.up", "mlp.c_fc");
    conv("mlp.down", "mlp.c_proj");
  }

  void llama() {
    const std::string_view at = m_.norm_at;
    if (at != "post") norm("attn_norm", "input_layernorm");
    if (at != "pre") norm("attn_post_norm", "post_attention_layernorm");
    if (at == "pre") norm("mlp_norm", "post_attention_layernorm");
    if (at == "both") norm("mlp_norm", "pre_feedforward_layernorm");
    if (at != "pre") norm("mlp_post_norm", "post_feedforward_layernorm");
    if (m_.qk_norm != "none") {
      norm("attn.q_norm", "self_attn.q_norm");
      norm("attn.k_norm", "self_attn.k_norm");
    }
    m_.family->fused ? fused() : apart();
    product("attn.out", "self_attn.o_proj", m_.out_bias);
    product("mlp.down", "mlp.down_proj", m_.mlp_bias);
  }

 private:
  void apart() {
    for (const char* c : {"q", "k", "v"})
      product(std::string("attn.") + c, std::string("self_attn.") + c + "_proj", m_.qkv_bias);
    product("mlp.gate", "mlp.gate_proj", m_.mlp_bias);
    product("mlp.up", "mlp.up_proj", m_.mlp_bias);
  }

  void fused() {
    const int64_t q = m_.heads * m_.head_dim, k = m_.kv_heads * m_.head_dim;
    rows("attn.q.weight", "self_attn.qkv_proj.weight", false, 0, q);
    rows("attn.k.weight", "self_attn.qkv_proj.weight", false, q, k);
    rows("attn.v.weight", "self_attn.qkv_proj.weight", false, q + k, k);
    rows("mlp.gate.weight", "mlp.gate_up_proj.weight", false, 0, m_.ffn);
    rows("mlp.up.weight", "mlp.gate_up_proj.weight", false, m_.ffn, m_.ffn);
  }

  void norm(const std::string& ours, const std::string& theirs) {
    out_.place(ours_ + ours + ".gain", theirs_ + theirs + ".weight");
    if (m_.layer_norm) out_.place(ours_ + ours + ".bias", theirs_ + theirs + ".bias");
  }
  void product(const std::string& ours, const std::string& theirs, bool bias) {
    out_.place(ours_ + ours + ".weight", theirs_ + theirs + ".weight");
    if (bias) out_.place(ours_ + ours + ".bias", theirs_ + theirs + ".bias");
  }
  // GPT-2's products are stored as (in, out).
  void conv(const std::string& ours, const std::string& theirs) {
    out_.place(ours_ + ours + ".weight", theirs_ + theirs + ".weight", true);
    out_.place(ours_ + ours + ".bias", theirs_ + theirs + ".bias");
  }
  void rows(const std::string& ours, const std::string& theirs, bool transposed, int64_t row,
            int64_t n) {
    out_.place(ours_ + ours, theirs_ + theirs, transposed, row, n);
  }

  const Model& m_;
  const FormatOutput& out_;
  const std::string ours_, theirs_;
};

}  // namespace

std::string usual_prefix(const Family& family) {
  return family.learned_positions ? "transformer." : "model.";
}
std::string embedding_tensor(const Family& family) {
  return family.learned_positions ? "wte.weight" : "embed_tokens.weight";
}

void write_places(const Model& m, const std::string& prefix, const FormatOutput& out) {
  const bool gpt2 = m.family->learned_positions;
  out.place("embed.weight", prefix + embedding_tensor(*m.family));
  if (gpt2) out.place("positions.weight", prefix + "wpe.weight");
  for (size_t i = 0; i < m.blocks.size(); ++i) {
    BlockPlaces block(m, i, prefix, out);
    gpt2 ? block.gpt2() : block.llama();
  }
  const std::string norm = prefix + (gpt2 ? "ln_f" : "norm");
  out.place("norm.gain", norm + ".weight");
  if (m.layer_norm) out.place("norm.bias", norm + ".bias");
  if (!m.tied) out.place("head.weight", "lm_head.weight");
}

}  // namespace plait::hf
