#include <algorithm>
#include <cmath>

#include "plugins/formats/hf/model.hpp"

namespace plait::hf {
namespace {

constexpr Keys kKeys{.width = "hidden_size",
                     .blocks = "num_hidden_layers",
                     .heads = "num_attention_heads",
                     .ffn = "intermediate_size",
                     .positions = "max_position_embeddings",
                     .eps = "rms_norm_eps",
                     .activation = "hidden_act",
                     .attention_dropout = "attention_dropout",
                     .dropout = nullptr,
                     .embedding_dropout = nullptr};
constexpr Keys kGpt2Keys{.width = "n_embd",
                         .blocks = "n_layer",
                         .heads = "n_head",
                         .ffn = "n_inner",
                         .positions = "n_positions",
                         .eps = "layer_norm_epsilon",
                         .activation = "activation_function",
                         .attention_dropout = "attn_pdrop",
                         .dropout = "resid_pdrop",
                         .embedding_dropout = "embd_pdrop"};

constexpr Keys with_activation(const char* name) {
  Keys keys = kKeys;
  keys.activation = name;
  return keys;
}
constexpr Keys with_dropouts() {
  Keys keys = kKeys;
  keys.dropout = "resid_pdrop";
  keys.embedding_dropout = "embd_pdrop";
  return keys;
}

constexpr Family kFamilies[] = {
    {.type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .keys = kGpt2Keys,
     .layer_norm = true,
     .gated = false,
     .learned_positions = true,
     .qkv_bias = Bias::kAlways,
     .out_bias = Bias::kAlways,
     .mlp_bias = Bias::kAlways,
     .tied = true,
     .eps = 1e-5,
     .activation = "gelu_new",
     .dropout = 0.1},
    {.type = "llama",
     .architecture = "LlamaForCausalLM",
     .keys = kKeys,
     .qkv_bias = Bias::kByKey,
     .out_bias = Bias::kByKey,
     .mlp_bias = Bias::kByKey},
    {.type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .keys = kKeys,
     .qkv_bias = Bias::kAlways,
     .windows = Windows::kFromLayer,
     .window = 4096,
     .kv_heads = 32},
    {.type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .keys = kKeys,
     .qk_norm = "head",
     .qkv_bias = Bias::kByKey,
     .out_bias = Bias::kByKey,
     .windows = Windows::kFromLayer,
     .window = 4096,
     .kv_heads = 32,
     .head_dim = 128},
    {.type = "mistral",
     .architecture = "MistralForCausalLM",
     .keys = kKeys,
     .windows = Windows::kAll,
     .window = 4096,
     .kv_heads = 8},
    {.type = "phi3",
     .architecture = "Phi3ForCausalLM",
     .keys = with_dropouts(),
     .windows = Windows::kAll,
     .rope_share = true,
     .only_longrope = true,
     .fused = true,
     .eps = 1e-5},
    {.type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .keys = with_activation("hidden_activation"),
     .unit_offset = true,
     .norm_at = "both",
     .qkv_bias = Bias::kByKey,
     .out_bias = Bias::kByKey,
     .windows = Windows::kEven,
     .window = 4096,
     .scaled_embedding = true,
     .softcaps = true,
     .softcap = 50,
     .final_softcap = 30,
     .final_cap = true,
     .tied = true,
     .kv_heads = 4,
     .head_dim = 256,
     .activation = "gelu_pytorch_tanh"},
    {.type = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .keys = with_activation("hidden_activation"),
     .unit_offset = true,
     .norm_at = "both",
     .qk_norm = "head",
     .qkv_bias = Bias::kByKey,
     .out_bias = Bias::kByKey,
     .windows = Windows::kPattern,
     .window = 4096,
     .scaled_embedding = true,
     .final_cap = true,
     .local_rope = true,
     .tied = true,
     .kv_heads = 4,
     .head_dim = 256,
     .activation = "gelu_pytorch_tanh",
     .theta = 1e6},
    {.type = "olmo2",
     .architecture = "Olmo2ForCausalLM",
     .keys = kKeys,
     .norm_at = "post",
     .qk_norm = "all",
     .qkv_bias = Bias::kByKey,
     .out_bias = Bias::kByKey,
     .eps = 1e-5},
    {.type = "mixtral",
     .architecture = "MixtralForCausalLM",
     .keys = kKeys,
     .windows = Windows::kAll,
     .experts = {.count = "num_local_experts",
                 .usual_count = 8,
                 .usual_top_k = 2,
                 .module = "block_sparse_moe",
                 .gate = "w1",
                 .up = "w3",
                 .down = "w2"},
     .eps = 1e-5,
     .kv_heads = 8,
     .theta = 1e6},
    {.type = "qwen3_moe",
     .architecture = "Qwen3MoeForCausalLM",
     .keys = kKeys,
     .qk_norm = "head",
     .qkv_bias = Bias::kByKey,
     .out_bias = Bias::kByKey,
     .windows = Windows::kSwitched,
     .window = 4096,
     .experts = {.count = "num_experts",
                 .usual_count = 128,
                 .usual_top_k = 8,
                 .ffn = "moe_intermediate_size",
                 .usual_ffn = 768,
                 .norm_by_key = true,
                 .dense_blocks = true},
     .kv_heads = 4},
    {.type = "olmoe",
     .architecture = "OlmoeForCausalLM",
     .keys = kKeys,
     .qk_norm = "all",
     .qkv_bias = Bias::kByKey,
     .out_bias = Bias::kByKey,
     .clips_qkv = true,
     .experts = {.count = "num_experts",
                 .usual_count = 64,
                 .usual_top_k = 8,
                 .norm_by_key = true,
                 .usual_balance = 0.01},
     .eps = 1e-5},
};

struct Activation {
  std::string_view theirs, plain, gated;
};
constexpr Activation kActivations[] = {
    {"silu", "silu", "swiglu"},
    {"swish", "silu", "swiglu"},
    {"gelu", "gelu", "geglu"},
    {"gelu_new", "gelu_tanh", "geglu_tanh"},
    {"gelu_pytorch_tanh", "gelu_tanh", "geglu_tanh"},
    {"gelu_fast", "gelu_tanh", "geglu_tanh"},
    {"relu", "relu", ""},
};

bool close(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b));
}

std::string bias_mismatch(const char* option, bool has, Bias family) {
  if (family == Bias::kByKey || has == (family == Bias::kAlways)) return "";
  return std::string(option) + " is " +
         (has ? "true, and it has no such biases" : "false, and it always has these biases");
}

std::string window_mismatch(const Model& m, const Family& f) {
  int64_t window = 0;
  size_t n = 0;
  for (const Block& block : m.blocks) {
    if (block.window == 0) continue;
    if (window != 0 && block.window != window) return "windows of two sizes";
    window = block.window;
    ++n;
  }
  if (n == 0) return "";
  if (f.windows == Windows::kNone) return "a window";
  if (f.windows_alike() && n != m.blocks.size()) return "a window in some blocks only";
  return "";
}

std::string experts_mismatch(const Model& m, const Family& f) {
  const auto n = static_cast<size_t>(m.blocks_of_experts());
  if (!f.experts.count) return n > 0 ? "experts" : "";
  if (f.experts.dense_blocks) return "";
  if (n < m.blocks.size()) return n > 0 ? "blocks without experts" : "no experts";
  return m.norm_top_k || f.experts.norm_by_key ? "" : "norm_top_k is false, and it has true";
}

std::string rope_mismatch(const Model& m, const Family& f) {
  const Rope* of[2] = {nullptr, nullptr};  // without a window, with one
  for (const Block& block : m.blocks) {
    const Rope*& known = of[f.local_rope && block.window > 0 ? 1 : 0];
    if (known && !(*known == block.rope)) return "rotary positions that differ between its blocks";
    known = &block.rope;
    if (block.rope.share != 1 && !f.rope_share) return "rope_share";
    if (f.only_longrope && block.rope.scaling != "none" && block.rope.scaling != "longrope")
      return "rope_scaling is \"" + block.rope.scaling + "\", and it has \"longrope\" only";
  }
  if (of[1] && of[1]->scaling != "none") return "rope_scaling in blocks with a window";
  return "";
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view type) {
  const Family* at = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                  [&](const Family& f) { return f.type == type; });
  return at == std::end(kFamilies) ? nullptr : at;
}

std::string family_names() {
  std::string all;
  for (const Family& f : kFamilies) all += (all.empty() ? "" : ", ") + std::string(f.type);
  return all;
}

std::string mlp_of(std::string_view activation, bool gated) {
  for (const Activation& a : kActivations)
    if (a.theirs == activation) return std::string(gated ? a.gated : a.plain);
  return "";
}

std::string activation_names(bool gated) {
  std::string all;
  for (const Activation& a : kActivations)
    if (!(gated ? a.gated : a.plain).empty())
      all += (all.empty() ? "" : ", ") + std::string(a.theirs);
  return all;
}

std::string activation_of(std::string_view mlp, std::string_view usual) {
  if (mlp == mlp_of(usual, true) || mlp == mlp_of(usual, false)) return std::string(usual);
  for (const Activation& a : kActivations)
    if (mlp == a.plain || mlp == a.gated) return std::string(a.theirs);
  return "";
}

std::string mismatch(const Model& m, const Family& f) {
  const auto differs = [](const std::string& option, const std::string& is,
                          const std::string& has) {
    return is == has ? "" : option + " is \"" + is + "\", and it has \"" + has + "\"";
  };
  const auto kind = [](bool layer_norm) { return layer_norm ? "layer_norm" : "rms_norm"; };
  const bool gated = m.mlp == "swiglu" || m.mlp == "geglu" || m.mlp == "geglu_tanh";
  const std::string faults[] = {
      differs("norm", kind(m.layer_norm), kind(f.layer_norm)),
      m.learned_positions == f.learned_positions ? ""
      : m.learned_positions                      ? "learned positions, and it has rotary ones"
                                                 : "rotary positions, and it has learned ones",
      differs("norm_at", m.norm_at, f.norm_at),
      differs("qk_norm", m.qk_norm, f.qk_norm),
      m.unit_offset == f.unit_offset ? "" : "unit_offset of norms",
      gated == f.gated && !activation_of(m.mlp, f.activation).empty() ? ""
                                                                      : "mlp is \"" + m.mlp + "\"",
      bias_mismatch("qkv_bias", m.qkv_bias, f.qkv_bias),
      bias_mismatch("out_bias", m.out_bias, f.out_bias),
      f.qkv_bias == Bias::kByKey && f.out_bias == Bias::kByKey && m.qkv_bias != m.out_bias
          ? "qkv_bias without out_bias, and it has one key for both"
          : "",
      bias_mismatch("mlp_bias", m.mlp_bias, f.mlp_bias),
      window_mismatch(m, f),
      experts_mismatch(m, f),
      m.clip_qkv == 0 || f.clips_qkv ? "" : "clip_qkv",
      f.learned_positions ? "" : rope_mismatch(m, f),
      (f.scaled_embedding ? close(m.embedding_scale, std::sqrt(static_cast<double>(m.width)))
                          : m.embedding_scale == 1)
          ? ""
          : "scale of the embedding",
      f.scaled_embedding || m.attn_scale == 0 ||
              close(m.attn_scale, 1 / std::sqrt(static_cast<double>(m.head_dim)))
          ? ""
          : "attn_scale",
      m.softcap == 0 || f.softcaps ? "" : "softcap",
      m.final_softcap == 0 || f.final_cap ? "" : "a softcap of the logits",
      m.dropout == 0 || f.keys.dropout ? "" : "dropout",
      m.embedding_dropout == 0 || f.keys.embedding_dropout ? "" : "dropout behind the embedding",
      f.learned_positions && (m.kv_heads != m.heads || m.head_dim * m.heads != m.width)
          ? "kv_heads or head_dim"
          : "",
  };
  for (const std::string& fault : faults)
    if (!fault.empty()) return fault;
  return "";
}

}  // namespace plait::hf
