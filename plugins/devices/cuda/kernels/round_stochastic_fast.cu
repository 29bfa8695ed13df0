// round_stochastic where eight elements of x have one Philox block: a thread for each eight.
#include "plugins/devices/cuda/kernels/rounding.cuh"

namespace plait::cuda {

PLAIT_GLOBAL(round_stochastic_blocks, RoundStochasticArgs, 256) {
  const auto step = static_cast<int64_t>(get(a.step, 0));
  for (int64_t i = 8 * thread_index(); i < a.n; i += 8 * thread_count()) {
    const uint4 block = rounding_block(a, step, element_of(a, i));
    if (i + 8 > a.n) {
      for (int64_t j = i; j < a.n; ++j)
        a.y[j] = round_stochastic(a.x[j], rounding_bits(block, j - i));
      continue;
    }
    float x[8];
    load_pack<float, 4>(a.x + i, x);
    load_pack<float, 4>(a.x + i + 4, x + 4);
    Pack<uint16_t, 8> y;
#pragma unroll
    for (int j = 0; j < 8; ++j) y.v[j] = round_stochastic(x[j], rounding_bits(block, j));
    *reinterpret_cast<Pack<uint16_t, 8>*>(a.y + i) = y;
  }
}

}  // namespace plait::cuda
