// An f32 in two halves of 16 bits, and back.
#include "kit/ops/halves.hpp"

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer_split(const InferContext& c) {
  c.arity(1, 1);
  kit::parse_split_halves(c.desc);
  plait_shape high = c.in[0];
  high.dtype = PLAIT_BF16;
  return {high, kit::low_shape(high)};
}
std::vector<plait_shape> infer_join(const InferContext& c) {
  c.arity(2, 2);
  kit::parse_join_halves(c.desc);
  return {make_shape(PLAIT_F32, dims_of(c.in[0]))};
}

}  // namespace

std::span<const OpDef> halves_ops() {
  static const OpDef kOps[] = {
      {.name = "split_halves",
       .help = "x rounded to the nearest bf16, of two equally near to the one further from 0, and "
               "the difference of their bits, an integer of 16 bits in two bytes; a NaN stays one",
       .signature = "x (.., C) -> high (.., C), low (.., 2 C)",
       .dtypes = "x f32; high bf16, low u8",
       .audience = Audience::kEngine,
       .infer = infer_split,
       .precision = PrecisionClass::kFollow},
      {.name = "join_halves",
       .help = "what split_halves divided: the bits of high and 16 zeros, plus low, as an f32",
       .signature = "high (.., C), low (.., 2 C) -> x (.., C)",
       .dtypes = "high bf16, low u8; x f32",
       .audience = Audience::kEngine,
       .infer = infer_join,
       .precision = PrecisionClass::kFollow,
       .typed_operands = 0}};
  return kOps;
}

}  // namespace plait::program
