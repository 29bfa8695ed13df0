// rope_table, and rope in double.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/rope_args.hpp"

namespace plait::cuda {

// A thread for each pair. The angle is f32; its cos and sin are rounded to f32 once.
PLAIT_GLOBAL(rope_table_plain, RopeTableArgs, 256) {
  const int64_t n = a.tokens * a.count, threads = thread_count();
  for (int64_t i = thread_index(); i < n; i += threads) {
    const int64_t token = i / a.count, pair = i % a.count;
    const auto position =
        static_cast<float>(a.positions.data ? get_index(a.positions, token) : token);
    const bool longer = a.lengths.data && get_index(a.lengths, token / a.sample) > a.original;
    const float angle = position * (longer ? a.long_frequency[pair] : a.frequency[pair]);
    const int64_t at = token * a.pairs + a.first + pair;
    a.cos[at] = static_cast<float>(cos(double{angle})) * a.amplitude;
    a.sin[at] = static_cast<float>(sin(double{angle})) * a.amplitude;
  }
}

// A thread for each pair of channels, and for each channel that is in no pair.
PLAIT_GLOBAL(rope_plain, RopeArgs, 256) {
  const int64_t items = a.channels - a.pairs, n = a.samples * a.tokens * a.heads * items;
  const int64_t threads = thread_count();
  for (int64_t i = thread_index(); i < n; i += threads) {
    const int64_t head = i / items, item = i % items, begin = head * a.channels;
    if (item >= a.pairs) {
      const int64_t at = begin + a.pairs + item;
      set(a.y, at, get(a.x, at));
      continue;
    }
    const int64_t token = head / a.heads, row = a.by_sample ? token : token % a.tokens,
                  first = begin + (a.adjacent ? 2 * item : item),
                  second = a.adjacent ? first + 1 : first + a.pairs;
    const double c = a.cos[row * a.pairs + item], positive = a.sin[row * a.pairs + item],
                 s = a.inverse ? -positive : positive;
    const double x0 = get(a.x, first), x1 = get(a.x, second);
    set(a.y, first, x0 * c - x1 * s);
    set(a.y, second, x1 * c + x0 * s);
  }
}

}  // namespace plait::cuda
