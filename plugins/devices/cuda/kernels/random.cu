// random: a thread for each number. plugins/support/philox.hpp says which element gets which.
#include "plugins/devices/cuda/kernels/philox.cuh"
#include "plugins/devices/cuda/kernels/random_args.hpp"

namespace plait::cuda {

PLAIT_GLOBAL(random_plain, RandomArgs, 256) {
  const int64_t step = a.counter[0], first_sample = a.by_sample ? a.counter[1] + a.first_sample : 0;
  const int64_t n = a.samples * a.per_sample, stride = thread_count();
  for (int64_t i = thread_index(); i < n; i += stride) {
    const int64_t sample = i / a.per_sample, at = i % a.per_sample;
    const auto e = static_cast<uint64_t>(at / a.run * a.stride + a.first + at % a.run);
    const uint64_t q = e / 4;
    const int64_t high = a.by_sample ? first_sample + sample : static_cast<int64_t>(q >> 32);
    const uint4 block = random_block(a.seed, a.stream, step, high, q);
    const auto word = static_cast<uint32_t>(e % 4), pair = word & ~1u;
    if (!a.normal) {
      set(a.y, i, double{to_uniform(word_of(block, word))});
      continue;
    }
    const double2 two = to_normal(word_of(block, pair), word_of(block, pair + 1));
    set(a.y, i, word % 2 ? two.y : two.x);
  }
}

}  // namespace plait::cuda
