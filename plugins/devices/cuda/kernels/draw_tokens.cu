// draw_tokens: a block draws from each row, by the algorithm of kit/draw_token.hpp. All sums are of
// whole numbers, so neither their order nor that of atomic operations changes a result.
#include "kit/draw_weight.hpp"
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/draw_tokens_args.hpp"
#include "plugins/devices/cuda/kernels/philox.cuh"

namespace plait::cuda {
namespace {

using kit::DrawRow;

constexpr int kThreads = static_cast<int>(kDrawBlock), kWarps = kThreads / 32;
constexpr int kDigits = 2 * kThreads;  // of 11 bits, then 11, then 10: see bound_of()

struct Least {
  static __device__ __forceinline__ int join(int a, int b) { return a < b ? a : b; }
};
struct Most {
  static __device__ __forceinline__ float join(float a, float b) { return fmaxf(a, b); }
};

__device__ __forceinline__ int own() { return static_cast<int>(threadIdx.x); }

// f(i, x[i]) for the numbers of a row that are this thread's.
template <class F>
__device__ __forceinline__ void each_logit(const float* x, int n, const F& f) {
#pragma unroll 2
  for (int i = own(); i < n; i += kThreads) f(i, x[i]);
}

struct Greatest {
  float value;
  bool nan;
};
__device__ Greatest greatest_of(const float* x, int n) {
  float most = -INFINITY;
  int nan = 0;
  each_logit(x, n, [&](int, float v) {
    nan |= v != v;
    most = fmaxf(most, v);
  });
  most = over_block<Most>(most, -INFINITY);
  return {most, __syncthreads_or(nan) != 0};
}

__device__ int first_of(const float* x, int n, float value) {
  int first = n;
  each_logit(x, n, [&](int i, float v) {
    if (v == value && i < first) first = i;
  });
  return over_block<Least>(first, n);
}

// What may be drawn: ranks up to last_rank, distances up to last_distance, of that one ids up to
// last_id, and weights from `least` on.
struct Kept {
  float greatest;
  double scale;
  uint64_t least;
  uint32_t last_rank, last_distance;
  int last_id;
  __device__ __forceinline__ uint32_t distance(float v) const {
    return kit::distance_of(v - greatest, scale);
  }
  // 0: it is not drawn.
  __device__ __forceinline__ uint64_t weight(int i, float v) const {
    const uint32_t d = distance(v);
    const uint64_t w = kit::weight_of(d);
    const bool kept = (d < last_distance || (d == last_distance && i <= last_id)) && w >= least &&
                      kit::rank_of_bits(__float_as_uint(v)) <= last_rank;
    return kept ? w : 0;
  }
};

// The sum of a number of all threads before this one, and of all. Every thread calls it.
struct Prefix {
  uint64_t before, all;
};
__device__ Prefix prefix_of(uint64_t own_part) {
  __shared__ uint64_t of_warp[kWarps];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint64_t sum = own_part;
#pragma unroll
  for (unsigned step = 1; step < 32; step *= 2) {
    const uint64_t other = __shfl_up_sync(kWholeWarp, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();  // a call before this one may still read
  if (lane == 31) of_warp[warp] = sum;
  __syncthreads();
  Prefix p{sum - own_part, 0};
  for (unsigned w = 0; w < kWarps; ++w) {
    if (w < warp) p.before += of_warp[w];
    p.all += of_warp[w];
  }
  return p;
}

// 64 bits as two words, since shared memory adds words alone by itself.
struct Histogram {
  uint32_t low[kDigits], high[kDigits];
  __device__ __forceinline__ void clear() {
    for (int i = own(); i < kDigits; i += kThreads) low[i] = high[i] = 0;
  }
  __device__ __forceinline__ void add(uint32_t digit, uint64_t part) {
    const auto word = static_cast<uint32_t>(part);
    const uint32_t sum = atomicAdd(&low[digit], word) + word;
    const uint32_t carry = sum < word ? 1 : 0, upper = static_cast<uint32_t>(part >> 32) + carry;
    if (upper != 0) atomicAdd(&high[digit], upper);
  }
  __device__ __forceinline__ uint64_t sum(int digit) const {
    return static_cast<uint64_t>(high[digit]) << 32 | low[digit];
  }
};

__device__ Histogram& histogram_of_block() {
  __shared__ Histogram histogram;  // one for all uses
  return histogram;
}

// The value up to which the first of a set are, and the sum of those below it.
struct Bound {
  uint32_t value;
  uint64_t below, wanted;
};
// each(add): calls add(value, part) for each member of a set that is this thread's. Finds the least
// value up to which the parts sum up to target(sum of all) or more; that is above 0 and at most the
// sum.
template <class Each, class Target>
__device__ Bound bound_of(const Each& each, const Target& target) {
  Histogram& histogram = histogram_of_block();
  __shared__ uint64_t found_below;
  __shared__ uint32_t found_digit;
  Bound b{0, 0, 0};
  for (int level = 0; level < 3; ++level) {
    const int shift = level == 0 ? 21 : level == 1 ? 10 : 0, bits = level == 2 ? 10 : 11;
    histogram.clear();
    __syncthreads();
    each([&](uint32_t value, uint64_t part) {
      if (level == 0 || value >> (shift + bits) == b.value)
        histogram.add((value >> shift) & ((1u << bits) - 1), part);
    });
    __syncthreads();
    const int digit = 2 * own();
    const uint64_t first = histogram.sum(digit), second = histogram.sum(digit + 1);
    const Prefix p = prefix_of(first + second);
    if (level == 0) b.wanted = target(p.all);
    const uint64_t before = b.below + p.before, between = before + first;
    if (before < b.wanted && b.wanted <= between + second) {
      const bool later = between < b.wanted;
      found_digit = static_cast<uint32_t>(digit + later);
      found_below = later ? between : before;
    }
    __syncthreads();
    b.value = b.value << bits | found_digit;
    b.below = found_below;
    __syncthreads();
  }
  return b;
}

// What is equal to the last of them stays, too.
__device__ void keep_top_k(const float* x, int n, int64_t k, Kept& kept) {
  const auto each = [&](const auto& add) {
    each_logit(x, n, [&](int, float v) { add(kit::rank_of_bits(__float_as_uint(v)), 1); });
  };
  kept.last_rank = bound_of(each, [&](uint64_t) { return static_cast<uint64_t>(k); }).value;
}

// The id of the wanted one, from 1 on, of those at the last distance that may be drawn.
__device__ int id_at_distance(const float* x, int n, const Kept& kept, uint64_t wanted) {
  __shared__ int found;
  uint64_t before = 0;
  for (int begin = 0; begin < n && before < wanted; begin += kThreads) {
    const int i = begin + own();
    const bool one = i < n && kept.distance(x[i]) == kept.last_distance && kept.weight(i, x[i]) > 0;
    const Prefix p = prefix_of(one ? 1 : 0);
    if (one && before + p.before + 1 == wanted) found = i;
    before += p.all;
  }
  __syncthreads();
  return found;
}

// A token stays while those that are likelier, or as likely with a lower id, sum up to less than
// the part of the sum.
__device__ void keep_top_p(const float* x, int n, const DrawRow& row, Kept& kept) {
  const auto each = [&](const auto& add) {
    each_logit(x, n, [&](int i, float v) {
      const uint64_t w = kept.weight(i, v);
      if (w > 0) add(kept.distance(v), w);
    });
  };
  const Bound bound = bound_of(each, [&](uint64_t sum) { return row.part_of(sum); });
  const uint64_t weight = kit::weight_of(bound.value);
  kept.last_distance = bound.value;
  kept.last_id = id_at_distance(x, n, kept, (bound.wanted - bound.below + weight - 1) / weight);
}

// The id at the place `random` of the weights of what is kept, one behind the other. The row is cut
// into a part for each warp, then the part where the place is, and so on.
__device__ int draw_kept(const float* x, int n, const Kept& kept, uint64_t random) {
  __shared__ uint64_t of_warp[kWarps];
  __shared__ int found;
  const int lane = own() % 32, warp = own() / 32;
  uint64_t at = 0;
  int first = 0;
  bool placed = false;
  for (int left = n; left > 32 || !placed;) {
    const int part = (left + kWarps - 1) / kWarps, end = min((warp + 1) * part, left);
    uint64_t sum = 0;
#pragma unroll 2
    for (int i = warp * part + lane; i < end; i += 32) sum += kept.weight(first + i, x[first + i]);
    sum = over_warp<Sum>(sum);
    __syncthreads();  // the round before may still read
    if (lane == 0) of_warp[warp] = sum;
    __syncthreads();
    if (!placed) {
      uint64_t total = 0;
      for (int w = 0; w < kWarps; ++w) total += of_warp[w];
      at = kit::multiply_high(random, total);
      placed = true;
    }
    int w = 0;
    for (; at >= of_warp[w]; ++w) at -= of_warp[w];
    first += w * part;
    left = min(part, left - w * part);
    if (left <= 32) {
      const int i = first + lane;
      const uint64_t own_part = lane < left ? kept.weight(i, x[i]) : 0;
      uint64_t up_to = own_part;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const uint64_t other = __shfl_up_sync(kWholeWarp, up_to, static_cast<unsigned>(step));
        if (lane >= step) up_to += other;
      }
      if (warp == 0 && at < up_to && at >= up_to - own_part) found = i;
    }
  }
  __syncthreads();
  return found;
}

__device__ int sample(const float* x, const DrawRow& row, float greatest, uint64_t random) {
  const int n = static_cast<int>(row.ids);
  Kept kept{greatest, row.scale, 0, 0xffffffffu, kit::kFarthest, n};
  if (row.top_k > 0) keep_top_k(x, n, row.top_k, kept);
  if (row.top_p < kit::kAllOfSum) keep_top_p(x, n, row, kept);
  kept.least = row.least;
  return draw_kept(x, n, kept, random);
}

__device__ float log_probability(const float* x, int n, Greatest all, int id) {
  if (all.nan || !isfinite(all.value)) return NAN;
  const double scale = kit::distance_scale(1);
  uint64_t sum = 0;
  each_logit(x, n,
             [&](int, float v) { sum += kit::weight_of(kit::distance_of(v - all.value, scale)); });
  sum = over_block<Sum>(sum, uint64_t{0});
  const double log_sum = log(static_cast<double>(sum) * 0x1p-40);
  return static_cast<float>(static_cast<double>(x[id]) - all.value - log_sum);
}

__device__ int32_t fault_of(Greatest g) {
  if (g.nan) return kit::kLogitNan;
  if (isfinite(g.value)) return kit::kNotDrawn;
  return g.value < 0 ? kit::kLogitsImpossible : kit::kLogitInfinite;
}

__device__ uint64_t random_bits(const int32_t* numbers) {
  const auto word = [&](int i) { return static_cast<uint32_t>(numbers[i]); };
  const uint4 block = philox(
      make_uint4(word(kit::kDrawIndex), 0, word(kit::kDrawSequence), word(kit::kDrawSequence + 1)),
      word(kit::kDrawSeed), word(kit::kDrawSeed + 1));
  return static_cast<uint64_t>(block.x) << 32 | block.y;
}

}  // namespace

PLAIT_GLOBAL(draw_tokens, DrawTokensArgs, kDrawBlock) {
  const int64_t r = blockIdx.x;
  const float* const x = a.logits + r * a.vocabulary;
  const int32_t* const numbers = a.numbers + r * kit::kDrawNumbers;
  const DrawRow row = kit::draw_row(a.settings + r * kit::kDrawSettings, numbers, a.vocabulary);
  const int n = static_cast<int>(row.ids);
  int32_t id = kit::kNotDrawn;
  float log_of_id = NAN;
  if (n > 0) {
    Greatest g = greatest_of(x, n);
    id = fault_of(g);
    if (id == kit::kNotDrawn) {
      id = row.greedy ? first_of(x, n, g.value) : sample(x, row, g.value, random_bits(numbers));
      if (row.log_probability) {
        if (n < a.vocabulary) g = greatest_of(x, a.vocabulary);
        log_of_id = log_probability(x, a.vocabulary, g, id);
      }
    }
  }
  if (own() != 0) return;
  a.ids[r] = id;
  a.log_probability[r] = log_of_id;
}

}  // namespace plait::cuda
