// peft-bitfit: biases alone (Ben Zaken et al. 2021, arXiv:2106.10199). The model's own biases stay:
// what is learned is added to them.
#include <plait/plugin.hpp>

namespace {
using namespace plait;

Value change(const Builder& b, const PeftTarget& t) {
  return b.parameter("change", b.shape(t.bias), Init::constant(0), t.shard_along(t.out_dim(), 0),
                     t.shard_unit);
}

Value wrap(Builder& b, const Options&, const PeftTarget& t) {
  return t.has_bias() ? t.output + change(b, t) : t.output;
}

Merged merge(Builder& b, const Options&, const PeftTarget& t, Merged m) {
  if (t.has_bias()) m.bias = m.bias + change(b, t);
  return m;
}
}  // namespace

PLAIT_PLUGIN("peft-bitfit", "0.1.0", "Apache-2.0", "Changes of biases") {
  static const auto bitfit = peft<wrap, merge>(
      "bitfit", "changes the biases of products, whose weights `match` names", PLAIT_PEFT_PRODUCT);
  host.add(bitfit);
}
