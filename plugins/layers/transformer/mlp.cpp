// act(x.Wup).Wdown, or gated: (act(x.Wgate) * x.Wup).Wdown (Shazeer 2020).
#include <algorithm>
#include <iterator>

#include "plugins/support/functions.hpp"
#include "plugins/layers/transformer/parts.hpp"

namespace plait::transformer {
namespace {

struct Kind {
  std::string_view name;
  Value (*activation)(Value);
  bool gated;
};
constexpr Kind kKinds[] = {
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

Value mlp(const Builder& b, const Options& o, Value x, const std::string& prefix) {
  const int64_t width = tokens_of(b, x, "mlp").last(), given = o.integer("ffn"),
                inner = given > 0 ? given : 4 * width;
  const Start start = start_of(o);
  const bool bias = o.flag("bias") || o.flag("mlp_bias"), shard = o.text("parallel") == "heads";
  const auto part = [&](const char* name) {
    return product(b, x, prefix + name, inner, bias, start.std, {shard ? 0 : -1});
  };
  const std::string_view wanted = o.text("mlp");
  const Kind* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const Kind& one) { return one.name == wanted; });
  if (kind == std::end(kKinds)) refuse(b, "mlp", "mlp = \"" + std::string(wanted) + "\"");
  // One after the other: the order of the parameters is that of memory.
  const Value gate = kind->gated ? part("gate") : Value(), up = part("up");
  const Value inside = gate ? kind->activation(gate) * up : kind->activation(up);
  return functions::dropout(
      b, product(b, inside, prefix + "down", width, bias, start.out_std, {shard ? 1 : -1}),
      o.real("dropout"));
}

}  // namespace plait::transformer
