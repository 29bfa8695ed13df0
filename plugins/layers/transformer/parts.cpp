#include "plugins/layers/transformer/parts.hpp"

#include <cmath>

namespace plait::transformer {

void refuse(const Builder& b, const char* layer, const std::string& text) {
  fail(PLAIT_ERR_CONFIG, std::string("[") + layer + "] layer '" + b.scope() + "': " + text);
}

Shape tokens_of(const Builder& b, Value x, const char* layer) {
  Shape shape = b.shape(x);
  if (shape.ndim() != 3 || shape.last() == 0 || !shape.is_float())
    refuse(b, layer,
           "the input is " + shape.typed_text() +
               ", expected real numbers (samples, tokens, width); token ids go through an "
               "`embedding` layer first");
  return shape;
}

Value of_tokens(const Builder& b, const std::string& name, const Shape& x, const char* layer,
                const char* option) {
  const Value value = b.named(name.c_str());
  const Shape shape = b.shape(value);
  if (shape.is_float() || shape.ndim() != 2 || shape.dims[0] != x.dims[0] ||
      shape.dims[1] != x.dims[1])
    refuse(b, layer,
           std::string(option) + " names '" + name + "', which is " + shape.typed_text() +
               ", expected an integer for each token, (" + std::to_string(x.dims[0]) + ", " +
               std::to_string(x.dims[1]) + ")");
  return value;
}

Start start_of(const Options& o) {
  const double std = o.real("std");
  const auto depth = static_cast<double>(o.integer("depth"));
  return {std, depth > 0 ? std / std::sqrt(2 * depth) : std};
}

Value product(const Builder& b, Value x, const std::string& name, int64_t out, bool bias,
              double std, Shards shards) {
  const Shape weight_shape({out, b.shape(x).last()});
  const Value weight = b.parameter((name + ".weight").c_str(), weight_shape, Init::normal(0, std),
                                   shards.dim, shards.unit);
  if (!bias) return b.op("matmul", {x, weight}, {attr("transpose_b", true)});
  const Value added = b.parameter((name + ".bias").c_str(), Shape({out}), Init::constant(0),
                                  shards.dim == 0 ? 0 : -1, shards.unit);
  return b.op("matmul", {x, weight, added}, {attr("transpose_b", true), attr("bias", true)});
}

}  // namespace plait::transformer
