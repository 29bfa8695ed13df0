// A layer and a PEFT method that add terms to the loss, and losses that say the same by hand.
//   B samples of a micro-batch, C values of each
#include <plait/plugin.hpp>

#include <algorithm>

namespace {
using namespace plait;

constexpr plait_option kOptions[] = {opt_real("factor", "0.0", "of the term")};
constexpr plait_option kWatched[] = {opt_real("factor", "0.0", "of the term"),
                                     opt_real("times", "1.0", "of its sum and of what it counts")};

// Σ over samples of weight · mean x², and the sum of the weights. x (B,C)
std::pair<Value, Value> energy(const Builder& b, Value x) {
  const Value w = b.named("weight");
  const Shape s = b.shape(x);
  const Value each = b.sum(b.as(x * x, b.shape(w).dtype), {1}, false);
  return {b.sum(w * each) * (1.0 / static_cast<double>(s.dims[1])), b.sum(w)};
}

// y = x, which is to be small.
Value build_watch(Builder& b, const Options& o, std::span<const Value> in) {
  const auto [sum, weight] = energy(b, in[0]);
  const double times = o.real("times");
  if (b.training()) b.add_loss("energy", o.real("factor"), sum * times, weight * times);
  return in[0];
}

std::pair<Value, Value> build_energy(Builder& b, const Options&, std::span<const Value> in) {
  return energy(b, in[0]);
}

// mean (s - 2)², a term of the parameter alone.
Value distance(const Builder& b, Value s) {
  const Value d = b.as(s, b.shape(b.named("weight")).dtype) - 2.0;
  return b.sum(d * d) * (1.0 / static_cast<double>(b.shape(s).count()));
}

Value build_scale(Builder& b, const Options& o, std::span<const Value> in) {
  const Value s = b.parameter("s", Shape({b.shape(in[0]).last()}), Init::constant(1));
  const Value w = b.sum(b.named("weight"));
  if (b.training()) b.add_loss("distance", o.real("factor"), distance(b, s) * w, w);
  return in[0] * s;
}

// The same behind a product, of all targets the mean.
Value wrap(Builder& b, const Options& o, const PeftTarget& t) {
  const Value s = b.parameter("s", Shape({b.shape(t.output).last()}), Init::constant(1),
                              t.shard_along(t.out_dim(), 0), t.shard_unit);
  const Value w = b.sum(b.named("weight"));
  if (b.training())
    b.add_loss("distance", o.real("factor") / std::max(t.n_targets, 1u), distance(b, s) * w, w);
  return t.output * s;
}

// Its terms count different weights.
Value build_faulty(Builder& b, const Options&, std::span<const Value> in) {
  const Value w = b.sum(b.named("weight"));
  if (b.training()) {
    b.add_loss("faulty", 1, w, w);
    b.add_loss("faulty", 1, w, w * 2.0);
  }
  return in[0];
}
}  // namespace

PLAIT_PLUGIN("test-loss-terms", "1.0.0", "Apache-2.0", "Terms of the loss, for tests") {
  static const auto watch =
                        layer<build_watch>("test.watch", "y = x, which is to be small", kWatched),
                    scale = layer<build_scale>("test.scale", "y = s * x with s near 2", kOptions),
                    faulty = layer<build_faulty>("test.faulty", "y = x");
  static const auto energy_loss = loss<build_energy>("test.energy", "mean square", {}, 1, 1);
  static const auto scales =
      peft<wrap>("test.scales", "outputs times s near 2", PLAIT_PEFT_PRODUCT, kOptions);
  host.add(watch);
  host.add(scale);
  host.add(faulty);
  host.add(energy_loss);
  host.add(scales);
}
