#include "plugins/peft/lora/dora.hpp"

#include "plugins/peft/lora/low_rank.hpp"

namespace plait::dora {
namespace {

// Magnitudes m (O) and norms of the rows, one for each output, of the weight V that they scale.
Value magnitude(const Builder& b, const PeftTarget& t) {
  const int64_t out = b.shape(t.weight).dims[t.out_dim()];
  return b.parameter("magnitude", Shape({out}), Init::constant(1), t.shard_along(t.out_dim(), 0),
                     t.shard_unit);
}
Value norms(const Builder& b, const PeftTarget& t, Value weight) {
  return sqrt(b.sum(weight * weight, {static_cast<int64_t>(t.in_dim())}, false));
}

// m / ‖W + change‖. The norm counts as a constant in the backward pass (section 4.3 of the paper).
Value factor(const Builder& b, const PeftTarget& t, Value change) {
  return magnitude(b, t) / b.op("stop_gradient", {norms(b, t, t.weight + change)});
}

// x·Wᵀ·f + scale·(x·aᵀ)·bᵀ·f + bias, with f from factor(). Dropped inputs need x·Wᵀ of their own.
Value wrap(Builder& b, const Options& o, const PeftTarget& t) {
  const low_rank::Factors f = low_rank::factors(b, o, t);
  const Value scale = factor(b, t, low_rank::change(b, o, t, f));
  Value x = t.input, product = t.has_bias() ? t.output - t.bias : t.output;
  if (b.training() && o.real("dropout") > 0) {
    x = functions::dropout(b, x, o.real("dropout"));
    const auto times_weight = [&](Value v) {
      return b.op("matmul", {v, t.weight}, {attr("transpose_b", t.out_in)});
    };
    // What other adapters have added is scaled, too, as without dropout.
    product = times_weight(x) + (product - times_weight(t.input));
  }
  return t.output + product * (scale - 1.0) + low_rank::added(b, o, t, f, x) * scale;
}

Merged merge(Builder& b, const Options& o, const PeftTarget& t, Merged m) {
  const Value change = low_rank::change(b, o, t, low_rank::factors(b, o, t));
  const Value scale = factor(b, t, change);
  const Value along = t.out_in ? b.reshape(scale, {b.shape(scale).last(), 1}) : scale;
  // The model's own bias is not scaled; what other adapters have added to it is.
  if (t.has_bias() && m.bias.id != t.bias.id) m.bias = (m.bias - t.bias) * scale + t.bias;
  return {(m.weight + change) * along, m.bias};
}

std::vector<PeftStart> start(Builder& b, const Options&, const PeftTarget& t) {
  return {{magnitude(b, t), norms(b, t, t.weight)}};
}

}  // namespace

plait_peft_item item() {
  return peft<wrap, merge, start>(
      "dora", "LoRA that changes directions of a weight's rows, beside learned magnitudes of them",
      PLAIT_PEFT_PRODUCT, low_rank::kOptions);
}

}  // namespace plait::dora
