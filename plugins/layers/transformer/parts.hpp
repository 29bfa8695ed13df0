// What the layers of this plugin are made of. B samples, T tokens, C width, H query heads, G
// key/value heads, d channels of a head, F inner width of an MLP.
#pragma once

#include <plait/plugin.hpp>

#include <string>

namespace plait::transformer {

// Layers name what is wrong with their input or options.
[[noreturn]] void refuse(const Builder& b, const char* layer, const std::string& text);
// The shape of x, which must be floats (B,T,C).
Shape tokens_of(const Builder& b, Value x, const char* layer);

// The named value, which must be integers (B,T), one for each token of a value of shape x.
Value of_tokens(const Builder& b, const std::string& name, const Shape& x, const char* layer,
                const char* option);

// How weights begin: normal, of mean 0.
struct Start {
  double std = 0.02;
  double out_std = 0.02;  // of the products whose result is added to the residual
};
// Of the options std and depth.
Start start_of(const Options& o);

// How tensor ranks shard a weight (out, C): dim 0 the outputs, 1 the inputs, -1 replicated; in
// units of so many indices, as the channels of a head.
struct Shards {
  int32_t dim = -1;
  int64_t unit = 1;
};
// y = x.W^T (+ bias); W "<name>.weight" (out, C), bias "<name>.bias" (out).
Value product(const Builder& b, Value x, const std::string& name, int64_t out, bool bias,
              double std, Shards shards);

// Attention with products before and after it. x (B,T,C) -> (B,T,C). prefix: of parameters, "" or
// "attn.".
Value attention(const Builder& b, const Options& o, Value x, const std::string& prefix);
// Activations and gates of MLPs.
struct MlpKind {
  std::string_view name;
  Value (*activation)(Value);
  bool gated;
};
// Of the option `mlp`.
const MlpKind& mlp_kind(const Builder& b, const Options& o, const char* layer);
// Of the option `ffn`.
int64_t inner_width(const Options& o, int64_t width);

// x (B,T,C) -> (B,T,C), through F.
Value mlp(const Builder& b, const Options& o, Value x, const std::string& prefix);
// The same through some of E experts, each an MLP.
Value experts(const Builder& b, const Options& o, Value x, const std::string& prefix);

}  // namespace plait::transformer
