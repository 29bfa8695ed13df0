// A linear layer whose weight lies as (I,O), as no layer of ours has it.
//   B samples of a micro-batch, I values of each, O results
#include <plait/plugin.hpp>

namespace {
using namespace plait;

constexpr plait_option kOptions[] = {opt_int("out", nullptr, "O")};

Value build(Builder& b, const Options& o, std::span<const Value> in) {
  const int64_t i = b.shape(in[0]).last(), out = o.integer("out");
  const Value w = b.parameter("weight", Shape({i, out}), Init::normal(0, 0.4));
  return b.op("matmul", {in[0], w}, {});
}
}  // namespace

PLAIT_PLUGIN("test-io-linear", "1.0.0", "Apache-2.0", "A weight of another layout, for tests") {
  static const auto io_linear = layer<build>("test.io_linear", "y = x w", kOptions);
  host.add(io_linear);
}
