// layer-dense: `linear` and `flatten`.
#include <plait/plugin.hpp>

#include <cmath>

namespace {
using namespace plait;

constexpr plait_option kLinear[] = {
    at_least(opt_int("out", nullptr, "width of the output"), 1),
    opt_bool("bias", "true", "add a learned bias of `out` values"),
    opt_choice(
        "init", "\"kaiming_uniform\"", "kaiming_uniform|xavier_uniform|xavier_normal|normal|zeros",
        "initial values; kaiming_uniform: weight and bias in ±1/sqrt(in); for the others the "
        "bias is 0"),
    above(opt_real("init_std", "0.02", "standard deviation of init = \"normal\""), 0),
    opt_choice("parallel", "\"none\"", "none|column|row",
               "dimension sharded by tensor parallelism: column the outputs, row the inputs"),
};

Init weight_init(const Options& o, double in, double out) {
  const std::string_view kind = o.text("init");
  if (kind == "zeros") return Init::constant(0);
  if (kind == "normal") return Init::normal(0, o.real("init_std"));
  if (kind == "xavier_normal") return Init::normal(0, std::sqrt(2 / (in + out)));
  const double bound = kind == "xavier_uniform" ? std::sqrt(6 / (in + out)) : 1 / std::sqrt(in);
  return Init::uniform(-bound, bound);
}

void check_input(const Builder& b, const Shape& x) {
  const std::string found = "[linear] layer '" + b.scope() + "': the input is " + x.typed_text();
  if (x.ndim() < 2)
    fail(PLAIT_ERR_CONFIG,
         found +
             ", expected (samples, …, features): a sample is a single number here; "
             "give each sample at least one feature, e.g. with reshape = [1]");
  if (x.last() == 0)
    fail(PLAIT_ERR_CONFIG, found + ", expected at least one feature in the last axis");
  if (!x.is_float() && x.dtype != PLAIT_U8)
    fail(PLAIT_ERR_CONFIG,
         found + ", expected real numbers; token ids go through an `embedding` layer first");
}

// y = x·Wᵀ + bias over the last axis. x (B,…,I), W (O,I), bias (O), y (B,…,O).
Value build_linear(Builder& b, const Options& o, std::span<const Value> in) {
  const Shape shape = b.shape(in[0]);
  check_input(b, shape);
  const int64_t width = shape.last(), out = o.integer("out");
  const std::string_view parallel = o.text("parallel");
  const int32_t weight_partition = parallel == "column" ? 0 : parallel == "row" ? 1 : -1;
  const Value weight = b.parameter(
      "weight", Shape({out, width}),
      weight_init(o, static_cast<double>(width), static_cast<double>(out)), weight_partition);
  const Value x = shape.is_float() ? in[0] : b.cast(in[0], b.shape(weight).dtype);
  if (!o.flag("bias")) return b.op("matmul", {x, weight}, {attr("transpose_b", true)});

  const double bound = 1 / std::sqrt(static_cast<double>(width));
  const Init start =
      o.text("init") == "kaiming_uniform" ? Init::uniform(-bound, bound) : Init::constant(0);
  const Value bias = b.parameter("bias", Shape({out}), start, parallel == "column" ? 0 : -1);
  return b.op("matmul", {x, weight, bias}, {attr("transpose_b", true), attr("bias", true)});
}

// (B, d1, d2, …) → (B, d1·d2·…)
Value build_flatten(Builder& b, const Options&, std::span<const Value> in) {
  const Shape shape = b.shape(in[0]);
  if (shape.ndim() == 0)
    fail(PLAIT_ERR_CONFIG,
         "[flatten] layer '" + b.scope() + "': the input is a scalar, expected samples");
  return b.reshape(in[0], {shape.dims[0], shape.count(1)});
}
}  // namespace

PLAIT_PLUGIN("layer-dense", "0.1.0", "Apache-2.0", "Fully connected layer, and flattening") {
  static const auto linear =
      layer<build_linear>("linear", "y = x·Wᵀ + bias over the last axis", kLinear);
  static const auto flatten =
      layer<build_flatten>("flatten", "flattens each sample to one dimension");
  host.add(linear);
  host.add(flatten);
}
