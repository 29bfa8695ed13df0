// peft-lora: low-rank changes of products and tables (Hu et al. 2021, arXiv:2106.09685).
#include <plait/plugin.hpp>

#include <cmath>

#include "plugins/support/functions.hpp"

namespace {
using namespace plait;

constexpr plait_option kLora[] = {
    at_least(opt_int("rank", "8", "rank of the change, r: it is a product of two factors"), 1),
    opt_real("alpha", "8.0", "the change is multiplied by alpha / rank"),
    opt_bool("rslora", "false", "by alpha / sqrt(rank) instead (Kalajdzievski 2023)"),
    below(at_least(opt_real("dropout", "0.0",
                            "probability that an input of the change is 0; none of a table"),
                   0),
          1),
    opt_choice("init", "\"kaiming\"", "kaiming|gaussian",
               "initial values of the first factor: uniform in ±1/sqrt(inputs), or normal with "
               "deviation 1/rank; the second one starts at 0, of a table the first"),
};

double scale_of(const Options& o) {
  const auto rank = static_cast<double>(o.integer("rank"));
  return o.real("alpha") / (o.flag("rslora") ? std::sqrt(rank) : rank);
}

// The factors of a change. Of a product: a (r,I), b (O,r), the change of W is b·a. Of a table
// (V,C): a (V,r), b (C,r), the change is a·bᵀ; there a starts at 0 and b does not, so that rows
// which no sample names stay.
struct Factors {
  Value a, b;
};

Factors factors(const Builder& b, const Options& o, const PeftTarget& t) {
  const Shape weight = b.shape(t.weight);
  const int64_t rank = o.integer("rank");
  if (t.what == PLAIT_PEFT_LOOKUP)
    return {b.parameter("a", Shape({weight.dims[0], rank}), Init::constant(0), t.shard_along(0, 0),
                        t.shard_unit),
            b.parameter("b", Shape({weight.dims[1], rank}), Init::normal(0, 1))};
  const int64_t in = weight.dims[t.in_dim()], out = weight.dims[t.out_dim()];
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const Init start = o.text("init") == "gaussian" ? Init::normal(0, 1 / static_cast<double>(rank))
                                                  : Init::uniform(-bound, bound);
  return {b.parameter("a", Shape({rank, in}), start, t.shard_along(t.in_dim(), 1), t.shard_unit),
          b.parameter("b", Shape({out, rank}), Init::constant(0), t.shard_along(t.out_dim(), 0),
                      t.shard_unit)};
}

// y + scale · (x·aᵀ)·bᵀ
Value wrap(Builder& b, const Options& o, const PeftTarget& t) {
  const Factors f = factors(b, o, t);
  const Value inner = t.what == PLAIT_PEFT_LOOKUP
                          ? b.op("gather", {f.a, t.input})
                          : b.op("matmul", {functions::dropout(b, t.input, o.real("dropout")), f.a},
                                 {attr("transpose_b", true)});
  return t.output + b.op("matmul", {inner, f.b}, {attr("transpose_b", true)}) * scale_of(o);
}
}  // namespace

PLAIT_PLUGIN("peft-lora", "0.1.0", "Apache-2.0", "Low-rank changes of weights") {
  static const auto lora = peft<wrap>("lora", "adds a product of two small matrices to a weight",
                                      PLAIT_PEFT_PRODUCT | PLAIT_PEFT_LOOKUP, kLora);
  host.add(lora);
}
