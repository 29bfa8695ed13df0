// The options of the layers; a layer takes the tables that it reads.
#pragma once

#include <plait/plugin.hpp>

#include <array>

#include "plugins/support/functions.hpp"

namespace plait::transformer {

inline constexpr plait_option kShared[] = {
    above(opt_real("std", "0.02", "standard deviation of the initial weights"), 0),
    at_least(opt_int("depth", "0",
                     "blocks of the model: weights that write onto the residual begin with "
                     "std/sqrt(2*depth), as in GPT-2; 0: with std"),
             0),
    opt_bool("bias", "false", "all biases; each kind has an option of its own, too"),
    below(at_least(opt_real("dropout", "0", "probability that a result becomes 0"), 0), 1),
    opt_choice("parallel", "\"none\"", "none|heads",
               "tensor parallelism: heads shards the attention by heads, the MLP by its inner "
               "width, and experts by their number"),
};

inline constexpr plait_option kAttention[] = {
    at_least(opt_int("heads", nullptr, "query heads"), 1),
    at_least(opt_int("kv_heads", "0", "key/value heads, a divisor of `heads`; 0: as many"), 0),
    at_least(opt_int("head_dim", "0", "channels of a head; 0: width / heads"), 0),
    opt_bool("qkv_bias", "false", "biases of the products that make q, k and v"),
    opt_bool("out_bias", "false", "a bias of the product behind the attention"),
    opt_choice("qk_norm", "\"none\"", "none|head|all",
               "RMS norm of q and k: of each head alone, or over all heads"),
    opt_bool("causal", "true", "a token sees no token behind it"),
    at_least(opt_int("window", "0", "a token sees tokens at a distance below it; 0: at any"), 0),
    opt_text("documents", "\"\"",
             "the value (samples, tokens) that says where the document of each token begins, such "
             "as the field \"first\" of packed tokens: a token sees its own document alone"),
    at_least(opt_real("attn_scale", "0", "factor of the scores; 0: 1/sqrt(head_dim)"), 0),
    at_least(opt_real("softcap", "0", "c: scores become c*tanh(score/c); 0: they stay"), 0),
    at_least(opt_real("clip_qkv", "0", "q, k and v are cut to this size; 0: they are not"), 0),
    below(at_least(opt_real("attention_dropout", "0", "probability that a weight becomes 0"), 0),
          1),
};

inline constexpr double kRopeTheta = 10000;  // the default below
inline constexpr plait_option kRope[] = {
    opt_choice("rope", "\"none\"", "none|half|adjacent",
               "rotary positions; pairs of channels j and j + r/2, or 2j and 2j + 1"),
    above(opt_real("rope_theta", "10000", "pair j turns by theta^(-2j/r) per position"), 0),
    at_most(above(opt_real("rope_share", "1", "r / head_dim: the channels that are rotated"), 0),
            1),
    opt_choice("rope_scaling", "\"none\"", "none|linear|llama3|yarn|longrope",
               "how angles change beyond the length of the training"),
    above(opt_real("rope_factor", "1", "how many times longer than in training"), 0),
    above(opt_real("rope_low", "1", "llama3: low_freq_factor"), 0),
    above(opt_real("rope_high", "4", "llama3: high_freq_factor"), 0),
    at_least(
        opt_int("rope_original", "0", "the length of the training, for llama3, yarn, longrope"), 0),
    above(opt_real("rope_beta_fast", "32", "yarn: beta_fast"), 0),
    above(opt_real("rope_beta_slow", "1", "yarn: beta_slow"), 0),
    at_least(opt_real("rope_mscale", "0", "yarn: mscale"), 0),
    at_least(opt_real("rope_mscale_all_dim", "0", "yarn: mscale_all_dim"), 0),
    at_least(opt_real("rope_attention", "0",
                      "attention_factor: of the rotated q and k; 0: that of yarn and longrope"),
             0),
    opt_reals("rope_short", "[]",
              "longrope: r/2 divisors of the angles in samples of at most rope_original tokens"),
    opt_reals("rope_long", "[]",
              "longrope: divisors in longer samples; a sequence that is generated has these from "
              "the token on that makes it longer, and all of it is computed anew with them"),
};

inline constexpr plait_option kMlp[] = {
    at_least(opt_int("ffn", "0", "inner width; 0: 4 times the width"), 0),
    opt_choice("mlp", "\"gelu_tanh\"", "gelu_tanh|gelu|silu|relu|relu2|swiglu|geglu|geglu_tanh",
               "activation; of the last three act(gate)*up, gated"),
    opt_bool("mlp_bias", "false", "biases of the products"),
};

inline constexpr plait_option kExperts[] = {
    at_least(opt_int("experts", "0",
                     "MLPs of which a router chooses `top_k` for each token, by the softmax of "
                     "x.Wrouter; `ffn` and `mlp` say what each is, without biases. 0: one MLP"),
             0),
    at_least(opt_int("top_k", "2", "experts of a token"), 1),
    opt_bool("norm_top_k", "true",
             "the weights of a token's experts add up to 1; false: they are their probabilities "
             "among all"),
    at_least(
        opt_real("balance", "0",
                 "factor of a term of the loss that is top_k where a sample's tokens are spread "
                 "evenly over the experts, else larger; the metric `balance` is the sum of all "
                 "blocks"),
        0),
};

inline constexpr plait_option kBlock[] = {
    opt_choice("norm", "\"layer_norm\"", "layer_norm|rms_norm", "kind of the norms"),
    opt_choice("norm_at", "\"pre\"", "pre|post|both",
               "norms before attention and MLP, behind them, or both"),
};

// All options of some tables in one.
template <size_t... N>
constexpr auto join(const plait_option (&... tables)[N]) {
  std::array<plait_option, (N + ...)> all{};
  size_t at = 0;
  const auto append = [&](const auto& table) {
    for (const plait_option& o : table) all[at++] = o;
  };
  (append(tables), ...);
  return all;
}

inline constexpr auto kAttentionLayer = join(kAttention, kRope, functions::kNorm, kShared);
inline constexpr auto kMlpLayer = join(kMlp, kShared);
inline constexpr auto kExpertsLayer = join(kExperts, kMlp, kShared);
inline constexpr auto kDecoderBlock =
    join(kBlock, kAttention, kRope, kMlp, kExperts, functions::kNorm, kShared);

}  // namespace plait::transformer
