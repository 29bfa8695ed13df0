// layer-dropout: zeroes a random fraction of the values in training. The mask depends only on
// (seed, step, layer's name, index of the value), so it is the same however the run is split.
#include <plait/plugin.hpp>

#include "plugins/support/functions.hpp"

namespace {
using namespace plait;

constexpr plait_option kDropout[] = {
    below(at_least(opt_real("p", "0.1", "probability that a value becomes 0"), 0), 1)};

Value build_dropout(Builder& b, const Options& o, std::span<const Value> in) {
  return functions::dropout(b, in[0], o.real("p"));
}
}  // namespace

PLAIT_PLUGIN("layer-dropout", "0.1.0", "Apache-2.0", "Dropout") {
  static const auto dropout = layer<build_dropout>(
      "dropout", "in training, sets each value to 0 with probability p, else divides it by 1 - p",
      kDropout);
  host.add(dropout);
}
