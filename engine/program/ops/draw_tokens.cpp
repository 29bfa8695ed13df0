// A token drawn from each row of logits, the end of a step of generation.
#include "kit/ops/draw_tokens.hpp"

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer(const InferContext& c) {
  c.arity(3, 3);
  const Dims out = kit::parse_draw_tokens(c.desc).out;
  return {make_shape(PLAIT_I32, out), make_shape(PLAIT_F32, out)};
}

}  // namespace

std::span<const OpDef> draw_tokens_ops() {
  static const OpDef kOps[] = {
      {.name = "draw_tokens",
       .help =
           "an id for each row of logits, drawn with the probabilities that temperature, top_k, "
           "top_p and min_p leave, in this order, and the log-probability of the id without "
           "them; kit/draw_weight.hpp has the meaning of settings and numbers, and the "
           "arithmetic, which gives every device the same ids; below 0: why there is none",
       .signature = "logits (R.., V), settings (R.., 3), numbers (R.., 8) -> ids (R..), "
                    "log_probability (R..)",
       .dtypes = "logits, settings and log_probability f32; numbers and ids i32",
       .audience = Audience::kEngine,
       .infer = infer,
       .flops = no_flops,
       .precision = PrecisionClass::kFollow}};
  return kOps;
}

}  // namespace plait::program
