// peft-ia3: learned factors of activations (Liu et al. 2022, arXiv:2205.05638).
#include <plait/plugin.hpp>

namespace {
using namespace plait;

constexpr plait_option kIa3[] = {
    opt_choice("on", "\"output\"", "output|input",
               "what of a product is multiplied: its outputs, as of keys and values, or its "
               "inputs, as of the last product of an MLP"),
};

// (O) or (I), 1 at first.
Value factor(const Builder& b, const Options& o, const PeftTarget& t) {
  const uint32_t dim = o.text("on") == "output" ? t.out_dim() : t.in_dim();
  return b.parameter("factor", Shape({b.shape(t.weight).dims[dim]}), Init::constant(1),
                     t.shard_along(dim, 0), t.shard_unit);
}

Value wrap(Builder& b, const Options& o, const PeftTarget& t) {
  const Value l = factor(b, o, t);
  if (o.text("on") == "output") return t.output * l;
  // What (l - 1) · x adds: other adapters have changed the output already.
  return t.output +
         b.op("matmul", {t.input * (l - 1.0), t.weight}, {attr("transpose_b", t.out_in)});
}

// Along the outputs or inputs of the weight, whichever dimension these are.
Merged merge(Builder& b, const Options& o, const PeftTarget& t, Merged m) {
  const Value l = factor(b, o, t);
  const bool output = o.text("on") == "output";
  const uint32_t dim = output ? t.out_dim() : t.in_dim();
  const auto along = [&](Value v) { return dim == 1 ? v : b.reshape(v, {b.shape(v).last(), 1}); };
  if (!output) return {m.weight + t.weight * along(l - 1.0), m.bias};
  return {m.weight * along(l), t.has_bias() ? m.bias * l : m.bias};
}
}  // namespace

PLAIT_PLUGIN("peft-ia3", "0.1.0", "Apache-2.0", "Learned factors of activations") {
  static const auto ia3 = peft<wrap, merge>("ia3", "multiplies outputs or inputs of products",
                                            PLAIT_PEFT_PRODUCT, kIa3);
  host.add(ia3);
}
