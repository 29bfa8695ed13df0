// random of f32: a thread for each Philox block, four numbers.
#include "plugins/devices/cuda/kernels/philox.cuh"
#include "plugins/devices/cuda/kernels/random_args.hpp"

namespace plait::cuda {

PLAIT_GLOBAL(random_blocks, RandomArgs, 256) {
  const int64_t step = a.counter[0], first_sample = a.by_sample ? a.counter[1] + a.first_sample : 0;
  const int64_t blocks = (a.per_sample + 3) / 4, n = a.samples * blocks;
  const bool whole = a.per_sample % 4 == 0;  // every block fills 16 bytes of its own
  auto* y = static_cast<float*>(a.y.data);
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    const int64_t sample = i / blocks, q = i % blocks;
    const uint4 b =
        random_block(a.seed, a.stream, step, a.by_sample ? first_sample + sample : q >> 32,
                     static_cast<uint64_t>(q));
    float v[4] = {to_uniform(b.x), to_uniform(b.y), to_uniform(b.z), to_uniform(b.w)};
    if (a.normal) {
      const double2 first = to_normal(b.x, b.y), second = to_normal(b.z, b.w);
      v[0] = static_cast<float>(first.x);
      v[1] = static_cast<float>(first.y);
      v[2] = static_cast<float>(second.x);
      v[3] = static_cast<float>(second.y);
    }
    float* to = y + sample * a.per_sample + 4 * q;
    if (whole) {
      store_pack<float, 4>(to, v);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (4 * q + j < a.per_sample) to[j] = v[j];
    }
  }
}

}  // namespace plait::cuda
