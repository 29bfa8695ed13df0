// The host side that the kernels of round_stochastic share.
#pragma once

#include "kit/ops/round_stochastic.hpp"
#include "plugins/devices/cuda/kernels/round_stochastic_args.hpp"
#include "plugins/support/philox.hpp"

namespace plait::cuda {

// Everything but the addresses.
inline RoundStochasticArgs round_stochastic_args(const plait_op_desc& d) {
  const kit::RoundStochastic r = kit::parse_round_stochastic(d);
  RoundStochasticArgs args{};
  args.n = r.n;
  args.first = r.first;
  args.run = r.run;
  args.stride = r.stride;
  args.begin = r.begin;
  args.seed = r.seed;
  args.stream = support::stream_word(r.stream);
  args.step.dtype = r.step;
  return args;
}

inline RoundStochasticArgs with_operands(RoundStochasticArgs args, void* const* operands) {
  args.x = static_cast<const float*>(operands[0]);
  args.step.data = operands[1];
  args.y = static_cast<uint16_t*>(operands[2]);
  return args;
}

}  // namespace plait::cuda
