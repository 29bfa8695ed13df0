// A transformer as the folders of Hugging Face describe it, whatever its family.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plait::hf {

// Rotary positions, in the words of decoder_block.
struct Rope {
  double theta = 10000, share = 1;
  std::string scaling = "none";  // linear, llama3, yarn, longrope
  double factor = 1, low = 1, high = 4;
  int64_t original = 0;
  double beta_fast = 32, beta_slow = 1, mscale = 0, mscale_all_dim = 0, attention = 0;
  std::vector<double> short_factors, long_factors;
  bool operator==(const Rope&) const = default;
};

struct Block {
  int64_t window = 0;  // 0: none
  Rope rope;
  bool experts = false;  // in place of one MLP
  bool operator==(const Block&) const = default;
};

struct Family;

struct Model {
  const Family* family = nullptr;
  int64_t vocabulary = 0, width = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;
  int64_t positions = 0;  // the most tokens of a sample; 0: not known
  std::vector<Block> blocks;
  double eps = 1e-5;
  std::string mlp;               // as in decoder_block
  bool layer_norm = false;       // else RMS norms
  std::string norm_at = "pre";   // pre, post, both
  std::string qk_norm = "none";  // none, head, all
  bool unit_offset = false;      // of the norms
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  bool learned_positions = false;  // else rotary
  bool tied = false;               // the head is the embedding
  double embedding_scale = 1;
  double attn_scale = 0;                  // 0: 1/sqrt(head_dim)
  double softcap = 0, final_softcap = 0;  // of the scores, of the logits; 0: none
  double clip_qkv = 0;                    // 0: they are not cut
  double attention_dropout = 0, dropout = 0, embedding_dropout = 0;
  // Of the blocks with experts; `ffn` is that of the others.
  int64_t experts = 0, top_k = 0, expert_ffn = 0;
  bool norm_top_k = true;  // a token's weights add up to 1
  double balance = 0;      // as in decoder_block; 0: no such term
  int64_t blocks_of_experts() const {
    return std::count_if(blocks.begin(), blocks.end(), [](const Block& b) { return b.experts; });
  }
};

// What families differ in. Keys of config.json; nullptr: the family has none.
struct Keys {
  const char *width, *blocks, *heads, *ffn, *positions, *eps, *activation, *attention_dropout,
      *dropout, *embedding_dropout;
};
enum class Bias { kNever, kAlways, kByKey };  // by attention_bias or mlp_bias
// kSwitched: all, if use_sliding_window is set.
enum class Windows { kNone, kAll, kSwitched, kFromLayer, kEven, kPattern };

// Experts of a family, and how their tensors are named: LAYER.MODULE.experts.3.UP.weight.
struct Experts {
  const char* count = nullptr;  // key; nullptr: the family has none. Some files have the other
  int64_t usual_count = 0, usual_top_k = 0;  // when absent
  const char* ffn = nullptr;     // key of their inner width; nullptr: that of the family
  int64_t usual_ffn = 0;         // when absent
  bool norm_by_key = false;      // norm_topk_prob, false when absent; else it is always so
  bool dense_blocks = false;     // mlp_only_layers, decoder_sparse_step
  double usual_balance = 0.001;  // router_aux_loss_coef when absent
  const char *module = "mlp", *gate = "gate_proj", *up = "up_proj", *down = "down_proj";
};

struct Family {
  const char *type, *architecture;  // model_type; a class of the library
  Keys keys;
  bool layer_norm = false, unit_offset = false, gated = true, learned_positions = false;
  const char *norm_at = "pre", *qk_norm = "none";
  Bias qkv_bias = Bias::kNever, out_bias = Bias::kNever, mlp_bias = Bias::kNever;
  Windows windows = Windows::kNone;
  // Whether all blocks have the window, if one has it.
  bool windows_alike() const { return windows == Windows::kAll || windows == Windows::kSwitched; }
  int64_t window = 0;                     // when sliding_window is absent
  bool scaled_embedding = false;          // by sqrt(width), and query_pre_attn_scalar
  bool softcaps = false;                  // attn_logit_softcapping
  double softcap = 0, final_softcap = 0;  // when absent
  bool final_cap = false;                 // final_logit_softcapping
  bool local_rope = false;                // windows have a theta of their own
  bool rope_share = false;                // partial_rotary_factor
  bool only_longrope = false;             // of all scalings
  bool fused = false;                     // q, k, v in one tensor, and gate, up in another
  bool clips_qkv = false;                 // clip_qkv
  Experts experts = {};
  bool tied = false;                   // when tie_word_embeddings is absent
  double eps = 1e-6;                   // when absent
  int64_t kv_heads = 0, head_dim = 0;  // when absent; 0: heads, width / heads
  const char* activation = "silu";     // when absent
  double theta = 10000;                // when absent
  double dropout = 0;                  // each of those that have a key, when absent
};

std::span<const Family> families();
const Family* find_family(std::string_view type);  // nullptr: there is none
std::string family_names();                        // "gpt2, llama, ..."

// decoder_block's `mlp` for an activation of the library; "" if it has none. And the reverse.
std::string mlp_of(std::string_view activation, bool gated);
std::string activation_names(bool gated);  // "silu, gelu, ...", those that mlp_of() knows
std::string activation_of(std::string_view mlp, std::string_view usual);

// Why a family cannot describe a model: "heads ..."; "" if it can.
std::string mismatch(const Model& model, const Family& family);

}  // namespace plait::hf
