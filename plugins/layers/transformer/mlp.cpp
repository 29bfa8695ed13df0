// act(x.Wup).Wdown, or gated: (act(x.Wgate) * x.Wup).Wdown (Shazeer 2020).
#include <algorithm>
#include <iterator>

#include "plugins/layers/transformer/parts.hpp"
#include "plugins/support/functions.hpp"

namespace plait::transformer {
namespace {

constexpr MlpKind kKinds[] = {
    {"gelu_tanh", functions::gelu_tanh, false},
    {"gelu", functions::gelu, false},
    {"silu", functions::silu, false},
    {"relu", [](Value x) { return relu(x); }, false},
    {"relu2", [](Value x) { return relu(x) * relu(x); }, false},
    {"swiglu", functions::silu, true},
    {"geglu", functions::gelu, true},
    {"geglu_tanh", functions::gelu_tanh, true},
};

}  // namespace

const MlpKind& mlp_kind(const Builder& b, const Options& o, const char* layer) {
  const std::string_view wanted = o.text("mlp");
  const MlpKind* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                     [&](const MlpKind& one) { return one.name == wanted; });
  if (kind == std::end(kKinds)) refuse(b, layer, "mlp = \"" + std::string(wanted) + "\"");
  return *kind;
}

int64_t inner_width(const Options& o, int64_t width) {
  const int64_t given = o.integer("ffn");
  return given > 0 ? given : 4 * width;
}

Value mlp(const Builder& b, const Options& o, Value x, const std::string& prefix) {
  const int64_t width = tokens_of(b, x, "mlp").last(), inner = inner_width(o, width);
  const Start start = start_of(o);
  const bool bias = o.flag("bias") || o.flag("mlp_bias"), shard = o.text("parallel") == "heads";
  const auto part = [&](const char* name) {
    return product(b, x, prefix + name, inner, bias, start.std, {shard ? 0 : -1});
  };
  const MlpKind& kind = mlp_kind(b, o, "mlp");
  // One after the other: the order of the parameters is that of memory.
  const Value gate = kind.gated ? part("gate") : Value(), up = part("up");
  const Value inside = gate ? kind.activation(gate) * up : kind.activation(up);
  return functions::dropout(
      b, product(b, inside, prefix + "down", width, bias, start.out_std, {shard ? 1 : -1}),
      o.real("dropout"));
}

}  // namespace plait::transformer
