// A value that the backward pass takes for a constant.
#include "engine/program/op_def.hpp"
#include "engine/program/per_sample.hpp"

namespace plait::program {
namespace {

bool shard(const Graph&, const Op&, const std::vector<Placement>& have, int64_t, Sharding& s) {
  s.keeps_zeros = true;
  s.in[0] = have[0];
  s.out[0] = have[0];
  return true;
}

// Not the derivative, so the input counts as one without a gradient.
std::vector<OpExample> examples() { return {{.inputs = {{3, 5}}, .flat = {0}}}; }

}  // namespace

std::span<const OpDef> stop_gradient_ops() {
  static const OpDef kOps[] = {{.name = "stop_gradient",
                                .help = "x, whose gradient is 0: a view, nothing moves",
                                .signature = "x (..) -> y (..)",
                                .dtypes = "any",
                                .infer = [](const InferContext& c) -> std::vector<plait_shape> {
                                  return {c.like_first(dims_of(c.in.at(0)))};
                                },
                                .vjp = [](VjpContext&) {},
                                .is_view = true,
                                .precision = PrecisionClass::kFollow,
                                .shard = shard,
                                .per_sample = map_per_sample,
                                .examples = examples}};
  return kOps;
}

}  // namespace plait::program
