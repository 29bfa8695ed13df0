// Statistics of the elements of a tensor, for the observation of a run.
#include "kit/ops/statistics.hpp"

#include <plait/comm.h>

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer(const InferContext& c) {
  c.arity(1, 2);
  const kit::Statistics s = kit::parse_statistics(c.desc);
  return {make_shape(PLAIT_F64, {s.sums()}), make_shape(PLAIT_F64, {kit::kStatisticsExtremes})};
}

// A shard has terms of the sums. Its padding counts as zeros.
bool shard(const Graph&, const Op&, const std::vector<Placement>& have, int64_t, Sharding& s) {
  if (!have[0].is_shard()) return false;
  s.in[0] = have[0];
  s.out[0] = partial(PLAIT_COMM_SUM);
  s.out[1] = partial(PLAIT_COMM_MAX);
  s.keeps_zeros = true;  // its results have no padding
  return true;
}

}  // namespace

std::span<const OpDef> statistics_ops() {
  static const OpDef kOps[] = {
      {.name = "statistics",
       .help = "counts, sums of powers and extremes of the elements, of which figures of a tensor "
               "are made",
       .signature = "x (..), scale () or nothing -> sums (S), extremes (4)",
       .dtypes = "x floats; scale and results f64",
       .attrs = kit::kStatisticsAttrs,
       .audience = Audience::kEngine,
       .infer = infer,
       .flops = flops_per_input<16>,
       .precision = PrecisionClass::kFollow,
       .typed_operands = 1,
       .shard = shard}};
  return kOps;
}

}  // namespace plait::program
