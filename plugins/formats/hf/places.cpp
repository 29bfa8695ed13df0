#include "plugins/formats/hf/places.hpp"

namespace plait::hf {
namespace {

using Shape = std::vector<int64_t>;

struct Output {
  const FormatOutput& out;
  const ShapeSink& shapes;
  // A tensor that holds several parameters: its shape; then their rows.
  void shape(const std::string& theirs, const Shape& shape) const {
    if (shapes) shapes(theirs, shape);
  }
  void whole(const std::string& ours, const std::string& theirs, const Shape& extents,
             bool transposed = false) const {
    shape(theirs, extents);
    out.place(ours, theirs, transposed);
  }
  // A parameter of which each slice is a tensor.
  void slices(const std::string& ours, const std::vector<std::string>& theirs,
              const Shape& extents) const {
    for (const std::string& tensor : theirs) shape(tensor, extents);
    out.slices(ours, theirs);
  }
};

// Writes the places of one block. Products: `out` rows of `in` columns.
class BlockPlaces {
 public:
  BlockPlaces(const Model& model, size_t block, const std::string& prefix, const Output& to)
      : m_(model),
        block_(block),
        to_(to),
        ours_("h" + std::to_string(block) + "."),
        theirs_(prefix + (model.family->learned_positions ? "h." : "layers.") +
                std::to_string(block) + "."),
        q_(model.heads * model.head_dim),
        kv_(model.kv_heads * model.head_dim) {}

  void gpt2() {
    norm("attn_norm", "ln_1", m_.width);
    norm("mlp_norm", "ln_2", m_.width);
    to_.shape(theirs_ + "attn.c_attn.weight", {m_.width, 3 * m_.width});
    to_.shape(theirs_ + "attn.c_attn.bias", {3 * m_.width});
    for (int i = 0; i < 3; ++i) {
      const char* part[] = {"attn.q", "attn.k", "attn.v"};
      rows(std::string(part[i]) + ".weight", "attn.c_attn.weight", true, i * m_.width, m_.width);
      rows(std::string(part[i]) + ".bias", "attn.c_attn.bias", false, i * m_.width, m_.width);
    }
    conv("attn.out", "attn.c_proj", m_.width, m_.width);
    conv("mlp.up", "mlp.c_fc", m_.width, m_.ffn);
    conv("mlp.down", "mlp.c_proj", m_.ffn, m_.width);
  }

  void llama() {
    const std::string_view at = m_.norm_at;
    if (at != "post") norm("attn_norm", "input_layernorm", m_.width);
    if (at != "pre") norm("attn_post_norm", "post_attention_layernorm", m_.width);
    if (at == "pre") norm("mlp_norm", "post_attention_layernorm", m_.width);
    if (at == "both") norm("mlp_norm", "pre_feedforward_layernorm", m_.width);
    if (at != "pre") norm("mlp_post_norm", "post_feedforward_layernorm", m_.width);
    if (m_.qk_norm != "none") {
      const bool head = m_.qk_norm == "head";
      norm("attn.q_norm", "self_attn.q_norm", head ? m_.head_dim : q_);
      norm("attn.k_norm", "self_attn.k_norm", head ? m_.head_dim : kv_);
    }
    m_.family->fused ? fused() : apart();
    product("attn.out", "self_attn.o_proj", m_.width, q_, m_.out_bias);
    m_.blocks[block_].experts ? experts() : mlp();
  }

 private:
  void mlp() {
    if (m_.family->fused) {
      to_.shape(theirs_ + "mlp.gate_up_proj.weight", {2 * m_.ffn, m_.width});
      rows("mlp.gate.weight", "mlp.gate_up_proj.weight", false, 0, m_.ffn);
      rows("mlp.up.weight", "mlp.gate_up_proj.weight", false, m_.ffn, m_.ffn);
    } else {
      product("mlp.gate", "mlp.gate_proj", m_.ffn, m_.width, m_.mlp_bias);
      product("mlp.up", "mlp.up_proj", m_.ffn, m_.width, m_.mlp_bias);
    }
    product("mlp.down", "mlp.down_proj", m_.width, m_.ffn, m_.mlp_bias);
  }

  void experts() {
    const Experts& e = m_.family->experts;
    const std::string module = theirs_ + e.module + ".";
    to_.whole(ours_ + "mlp.router.weight", module + "gate.weight", {m_.experts, m_.width});
    const auto each = [&](const char* ours, const char* theirs, int64_t out, int64_t in) {
      std::vector<std::string> tensors;
      for (int64_t i = 0; i < m_.experts; ++i)
        tensors.push_back(module + "experts." + std::to_string(i) + "." + theirs + ".weight");
      to_.slices(ours_ + ours, tensors, {out, in});
    };
    each("mlp.gate.weight", e.gate, m_.expert_ffn, m_.width);
    each("mlp.up.weight", e.up, m_.expert_ffn, m_.width);
    each("mlp.down.weight", e.down, m_.width, m_.expert_ffn);
  }

  void apart() {
    for (const char* c : {"q", "k", "v"})
      product(std::string("attn.") + c, std::string("self_attn.") + c + "_proj",
              *c == 'q' ? q_ : kv_, m_.width, m_.qkv_bias);
  }

  void fused() {
    to_.shape(theirs_ + "self_attn.qkv_proj.weight", {q_ + 2 * kv_, m_.width});
    rows("attn.q.weight", "self_attn.qkv_proj.weight", false, 0, q_);
    rows("attn.k.weight", "self_attn.qkv_proj.weight", false, q_, kv_);
    rows("attn.v.weight", "self_attn.qkv_proj.weight", false, q_ + kv_, kv_);
  }

  void norm(const std::string& ours, const std::string& theirs, int64_t size) {
    to_.whole(ours_ + ours + ".gain", theirs_ + theirs + ".weight", {size});
    if (m_.layer_norm) to_.whole(ours_ + ours + ".bias", theirs_ + theirs + ".bias", {size});
  }
  void product(const std::string& ours, const std::string& theirs, int64_t out, int64_t in,
               bool bias) {
    to_.whole(ours_ + ours + ".weight", theirs_ + theirs + ".weight", {out, in});
    if (bias) to_.whole(ours_ + ours + ".bias", theirs_ + theirs + ".bias", {out});
  }
  // GPT-2's products are stored as (in, out).
  void conv(const std::string& ours, const std::string& theirs, int64_t in, int64_t out) {
    to_.whole(ours_ + ours + ".weight", theirs_ + theirs + ".weight", {in, out}, true);
    to_.whole(ours_ + ours + ".bias", theirs_ + theirs + ".bias", {out});
  }
  void rows(const std::string& ours, const std::string& theirs, bool transposed, int64_t row,
            int64_t n) {
    to_.out.place(ours_ + ours, theirs_ + theirs, transposed, row, n);
  }

  const Model& m_;
  const size_t block_;
  const Output& to_;
  const std::string ours_, theirs_;
  const int64_t q_, kv_;  // columns of all query heads; of all key heads
};

}  // namespace

std::string usual_prefix(const Family& family) {
  return family.learned_positions ? "transformer." : "model.";
}
std::string embedding_tensor(const Family& family) {
  return family.learned_positions ? "wte.weight" : "embed_tokens.weight";
}

void write_places(const Model& m, const std::string& prefix, const FormatOutput& out,
                  const ShapeSink& shapes) {
  const Output to{out, shapes};
  const bool gpt2 = m.family->learned_positions;
  to.whole("embed.weight", prefix + embedding_tensor(*m.family), {m.vocabulary, m.width});
  if (gpt2) to.whole("positions.weight", prefix + "wpe.weight", {m.positions, m.width});
  for (size_t i = 0; i < m.blocks.size(); ++i) {
    BlockPlaces block(m, i, prefix, to);
    gpt2 ? block.gpt2() : block.llama();
  }
  const std::string norm = prefix + (gpt2 ? "ln_f" : "norm");
  to.whole("norm.gain", norm + ".weight", {m.width});
  if (m.layer_norm) to.whole("norm.bias", norm + ".bias", {m.width});
  if (!m.tied) to.whole("head.weight", "lm_head.weight", {m.vocabulary, m.width});
}

}  // namespace plait::hf
