// f32 rounded to bf16 at random, with numbers that depend on the element of the tensor alone.
#include "kit/ops/round_stochastic.hpp"

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer(const InferContext& c) {
  c.arity(2, 2);
  kit::parse_round_stochastic(c.desc);
  return {make_shape(PLAIT_BF16, dims_of(c.in[0]))};
}

}  // namespace

std::span<const OpDef> round_stochastic_ops() {
  static const OpDef kOps[] = {
      {.name = "round_stochastic",
       .help = "x rounded to one of its two neighbours at random, so that the mean is x: the upper "
               "16 bits of x + u, u 16 bits that depend on (seed, stream, step, element) alone; "
               "a NaN stays one, and a finite number finite",
       .signature = "x (..), step () -> y (..)",
       .dtypes = "x f32, step f64 or f32; y bf16",
       .attrs = kit::kRoundStochasticAttrs,
       .audience = Audience::kEngine,
       .infer = infer,
       .precision = PrecisionClass::kFollow,
       .typed_operands = 1}};
  return kOps;
}

}  // namespace plait::program
