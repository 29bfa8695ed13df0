// round_stochastic: a thread for each element. kit/ops/round_stochastic.hpp says which element gets
// which bits.
#include "plugins/devices/cuda/kernels/rounding.cuh"

namespace plait::cuda {

PLAIT_GLOBAL(round_stochastic_plain, RoundStochasticArgs, 256) {
  const auto step = static_cast<int64_t>(get(a.step, 0));
  const int64_t threads = thread_count();
  for (int64_t i = thread_index(); i < a.n; i += threads) {
    const int64_t e = element_of(a, i);
    a.y[i] = round_stochastic(a.x[i], rounding_bits(rounding_block(a, step, e), e));
  }
}

}  // namespace plait::cuda
