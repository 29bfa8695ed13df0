// peft-vera: changes of products by two fixed random matrices and trained factors of their rows
// (Kopiczko et al. 2023, arXiv:2310.11454).
#include <plait/plugin.hpp>

#include <cmath>

#include "plugins/support/functions.hpp"

namespace {
using namespace plait;

constexpr plait_option kVera[] = {
    at_least(opt_int("rank", "256", "values between the two fixed matrices, r"), 1),
    opt_real("d_initial", "0.1", "initial value of the factors of these values"),
    below(at_least(opt_real("dropout", "0.0", "probability that an input of the change is 0"), 0),
          1),
};

// Uniform, with the deviation sqrt(2 / inputs).
Init kaiming(int64_t inputs) {
  const double bound = std::sqrt(6.0 / static_cast<double>(inputs));
  return Init::uniform(-bound, bound);
}

// a (r,I) and project (O,r) are fixed; d (r), b (O), which starts at 0.
struct Factors {
  Value a, project, d, b;
};

Factors factors(const Builder& b, const Options& o, const PeftTarget& t) {
  const Shape weight = b.shape(t.weight);
  const int64_t in = weight.dims[t.in_dim()], out = weight.dims[t.out_dim()];
  const int64_t rank = o.integer("rank");
  const int32_t along_out = t.shard_along(t.out_dim(), 0);
  const Value a = b.parameter("a", Shape({rank, in}), kaiming(in), t.shard_along(t.in_dim(), 1),
                              t.shard_unit, PLAIT_REQUEST_FIXED);
  const Value project = b.parameter("project", Shape({out, rank}), kaiming(rank), along_out,
                                    t.shard_unit, PLAIT_REQUEST_FIXED);
  const Value d = b.parameter("d", Shape({rank}), Init::constant(o.real("d_initial")));
  const Value scale = b.parameter("b", Shape({out}), Init::constant(0), along_out, t.shard_unit);
  return {a, project, d, scale};
}

// y + b ∘ ((d ∘ (x·aᵀ))·projectᵀ)
Value wrap(Builder& b, const Options& o, const PeftTarget& t) {
  const Factors f = factors(b, o, t);
  const Value x = functions::dropout(b, t.input, o.real("dropout"));
  const Value inner = f.d * b.op("matmul", {x, f.a}, {attr("transpose_b", true)});
  return t.output + f.b * b.op("matmul", {inner, f.project}, {attr("transpose_b", true)});
}

// W + diag(b)·project·diag(d)·a, or its transpose. The bias is not scaled.
Merged merge(Builder& b, const Options& o, const PeftTarget& t, Merged m) {
  const Factors f = factors(b, o, t);
  const Value left = f.project * f.d;
  if (t.out_in)
    m.weight = m.weight + b.op("matmul", {left, f.a}) * b.reshape(f.b, {b.shape(f.b).last(), 1});
  else
    m.weight =
        m.weight +
        b.op("matmul", {f.a, left}, {attr("transpose_a", true), attr("transpose_b", true)}) * f.b;
  return m;
}
}  // namespace

PLAIT_PLUGIN("peft-vera", "0.1.0", "Apache-2.0", "Factors of fixed random changes") {
  static const auto vera = peft<wrap, merge>(
      "vera", "trains factors of two fixed random matrices that are added to a weight",
      PLAIT_PEFT_PRODUCT, kVera);
  host.add(vera);
}
