// layer-embedding: a learned row for each id.
#include <plait/plugin.hpp>

namespace {
using namespace plait;

constexpr plait_option kEmbedding[] = {
    at_least(opt_int("vocabulary", nullptr, "number of distinct ids"), 1),
    at_least(opt_int("width", nullptr, "length of a row"), 1),
    at_least(opt_real("std", "1.0", "standard deviation of the initial rows"), 0),
    above(opt_real("scale", "1.0", "factor of the rows, as sqrt(width) in Gemma"), 0),
};

// ids (B,…) integers → (B,…,width)
Value build_embedding(Builder& b, const Options& o, std::span<const Value> in) {
  const Shape ids = b.shape(in[0]);
  if (!ids.is_integer())
    fail(PLAIT_ERR_CONFIG, "[embedding] layer '" + b.scope() + "': the input is " +
                               ids.typed_text() + ", expected integer ids (u8, i32 or i64)");
  const Shape table({o.integer("vocabulary"), o.integer("width")});
  const Value rows = b.parameter("weight", table, Init::normal(0, o.real("std")), 0);
  const Value found = b.op("gather", {rows, in[0]});
  const double scale = o.real("scale");
  return scale == 1 ? found : found * scale;
}
}  // namespace

PLAIT_PLUGIN("layer-embedding", "0.1.0", "Apache-2.0", "Embedding of ids") {
  static const auto embedding =
      layer<build_embedding>("embedding", "looks up each id in a learned table", kEmbedding);
  host.add(embedding);
}
