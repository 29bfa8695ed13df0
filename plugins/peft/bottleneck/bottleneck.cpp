// peft-bottleneck: two small products behind a layer or a product, in a transformer behind the last
// ones of attention and MLP (Houlsby et al. 2019, arXiv:1902.00751).
#include <plait/plugin.hpp>

#include "plugins/support/functions.hpp"

namespace {
using namespace plait;

constexpr plait_option kBottleneck[] = {
    at_least(opt_int("width", "64", "values between the two products"), 1),
    opt_choice("activation", "\"gelu\"", "gelu|relu|silu|tanh", "function of these values"),
    at_least(opt_real("init_std", "0.02",
                      "standard deviation of the first product's initial values; the second "
                      "starts at 0"),
             0),
};

Value activated(const Options& o, Value x) {
  const std::string_view kind = o.text("activation");
  if (kind == "relu") return max(x, 0.0);
  if (kind == "silu") return functions::silu(x);
  if (kind == "tanh") return tanh(x);
  return functions::gelu(x);
}

// y (B,…,C) → y + act(y·downᵀ)·upᵀ
Value wrap(Builder& b, const Options& o, const PeftTarget& t) {
  const Shape y = b.shape(t.output);
  if (!y.is_float() || y.ndim() < 2)
    fail(PLAIT_ERR_CONFIG, "[bottleneck] '" + t.name + "' makes " + y.typed_text() +
                               ", expected real numbers (samples, …, features)");
  const int64_t width = o.integer("width");
  const Value down =
      b.parameter("down", Shape({width, y.last()}), Init::normal(0, o.real("init_std")));
  const Value up = b.parameter("up", Shape({y.last(), width}), Init::constant(0));
  const Value inner = activated(o, b.op("matmul", {t.output, down}, {attr("transpose_b", true)}));
  return t.output + b.op("matmul", {inner, up}, {attr("transpose_b", true)});
}
}  // namespace

PLAIT_PLUGIN("peft-bottleneck", "0.1.0", "Apache-2.0", "Two small products behind a layer") {
  static const auto bottleneck =
      peft<wrap>("bottleneck", "adds two small products behind a layer or a product",
                 PLAIT_PEFT_LAYER | PLAIT_PEFT_PRODUCT, kBottleneck);
  host.add(bottleneck);
}
