// peft-lora: low-rank changes of products and tables (Hu et al. 2021, arXiv:2106.09685), also of
// their directions alone, or in place of the weight's principal part.
#include <plait/plugin.hpp>

#include "plugins/peft/lora/dora.hpp"
#include "plugins/peft/lora/low_rank.hpp"
#include "plugins/peft/lora/orthogonal_rows.hpp"
#include "plugins/peft/lora/pissa.hpp"

namespace {
using namespace plait;

Value wrap(Builder& b, const Options& o, const PeftTarget& t) {
  const bool drops = t.what != PLAIT_PEFT_LOOKUP;  // whose input is row numbers
  const Value x = drops ? functions::dropout(b, t.input, o.real("dropout")) : t.input;
  return t.output + low_rank::added(b, o, t, low_rank::factors(b, o, t), x);
}

Merged merge(Builder& b, const Options& o, const PeftTarget& t, Merged m) {
  return {m.weight + low_rank::change(b, o, t, low_rank::factors(b, o, t)), m.bias};
}
}  // namespace

PLAIT_PLUGIN("peft-lora", "0.1.0", "Apache-2.0", "Low-rank changes of weights") {
  static const auto lora = peft<wrap, merge>(
      "lora", "adds a product of two small matrices to a weight",
      PLAIT_PEFT_PRODUCT | PLAIT_PEFT_LOOKUP | PLAIT_PEFT_GROUPED, low_rank::kOptions);
  static const auto dora = dora::item();
  static const auto pissa = pissa::item();
  host.add(lora);
  host.add(dora);
  host.add(pissa);
  orthogonal_rows::add(host);
}
