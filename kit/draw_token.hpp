// A token drawn from a row of logits, on the host: the one algorithm of the sampler and of host
// kernels. The steps have the order of the transformers library: temperature, top_k, which compares
// logits as they are given, top_p (Holtzman et al. 2020), min_p, and a draw from what stays. No
// step sorts: a bound that top_k or top_p leaves is found digit by digit, in three histograms.
// draw_weight.hpp has the arithmetic.
//   V vocabulary
#pragma once

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "kit/draw_weight.hpp"
#include "kit/philox.hpp"

namespace plait::kit {

// What a draw depends on, besides the logits. A value that changes nothing: 1, but 0 for top_k and
// min_p.
struct DrawSettings {
  double temperature = 1, top_p = 1, min_p = 0;  // temperature 0: the most likely token
  int64_t top_k = 0;
  uint64_t seed = 0, sequence = 0;
  int64_t index = 0;             // of the token in its sequence
  int64_t ids = 0;               // [0, ids) may be drawn; 0: nothing is
  bool log_probability = false;  // wanted
};

// The row of an op's operands: to_settings (3), to_numbers (8).
inline void write_row(const DrawSettings& s, float* to_settings, int32_t* to_numbers) {
  const auto number = [](int64_t v) {
    return static_cast<int32_t>(std::clamp<int64_t>(v, 0, std::numeric_limits<int32_t>::max()));
  };
  const auto words = [](uint64_t v, int32_t* to) {
    to[0] = static_cast<int32_t>(static_cast<uint32_t>(v));
    to[1] = static_cast<int32_t>(static_cast<uint32_t>(v >> 32));
  };
  to_settings[0] = s.temperature > 0
                       ? static_cast<float>(std::clamp<double>(s.temperature, FLT_MIN, FLT_MAX))
                       : 0;
  to_settings[1] = static_cast<float>(s.top_p);
  to_settings[2] = static_cast<float>(s.min_p);
  to_numbers[kDrawIds] = number(s.ids);
  to_numbers[kDrawTopK] = number(s.top_k);
  to_numbers[kDrawLog] = s.log_probability;
  to_numbers[kDrawIndex] = number(s.index);
  words(s.sequence, to_numbers + kDrawSequence);
  words(s.seed, to_numbers + kDrawSeed);
}

// The 64 random bits of a row.
inline uint64_t random_bits(const int32_t* numbers) {
  const auto word = [&](int i) { return uint64_t{static_cast<uint32_t>(numbers[i])}; };
  const auto words = [&](int i) { return word(i) | word(i + 1) << 32; };
  const PhiloxBlock block = philox(word(kDrawIndex), words(kDrawSequence), words(kDrawSeed));
  return uint64_t{block[0]} << 32 | block[1];
}

struct Drawn {
  int32_t id = kNotDrawn;  // or why there is none
  float log_probability =
      0;  // by the model: of all V, without temperature; NaN: not wanted, or there is none
};

struct Greatest {
  float value = -std::numeric_limits<float>::infinity();
  bool nan = false;  // one of the numbers is NaN
};

// The loops over logits that a device may vectorise.
struct PlainLogits {
  static Greatest greatest(const float* x, int64_t n) {
    Greatest g;
    for (int64_t i = 0; i < n; ++i) {
      g.nan |= x[i] != x[i];
      g.value = x[i] > g.value ? x[i] : g.value;
    }
    return g;
  }
  // Distances and weights of n logits.
  static void weigh(const float* x, int64_t n, float greatest, double scale, uint32_t* distance,
                    uint64_t* weight) {
    for (int64_t i = 0; i < n; ++i) {
      distance[i] = distance_of(x[i] - greatest, scale);
      weight[i] = weight_of(distance[i]);
    }
  }
};

template <class Logits>
class TokenDraw {
 public:
  // The u64 words of scratch that a row of V logits needs.
  static constexpr int64_t scratch_words(int64_t vocabulary) {
    return std::max(kDigits, blocks_of(vocabulary)) + blocks_of(vocabulary);
  }
  // Both are borrowed.
  TokenDraw(std::span<const float> logits, uint64_t* scratch)
      : x_(logits.data()),
        n_(static_cast<int64_t>(logits.size())),
        scratch_(scratch),
        greatest_bits_(scratch + std::max(kDigits, blocks_of(n_))) {}

  Drawn draw(const float* settings, const int32_t* numbers) {
    const DrawRow row = draw_row(settings, numbers, n_);
    Drawn d{kNotDrawn, std::numeric_limits<float>::quiet_NaN()};
    if (row.ids == 0) return d;
    const Greatest g = greatest_of(row.ids);
    d.id = fault_of(g);
    if (d.id != kNotDrawn) return d;
    if (row.greedy) {
      d.id = static_cast<int32_t>(std::find(x_, x_ + row.ids, g.value) - x_);
    } else {
      keep(row, g.value);
      d.id = draw_kept(random_bits(numbers));
    }
    if (row.log_probability)
      d.log_probability = log_probability(d.id, row.ids < n_ ? Logits::greatest(x_, n_) : g);
    return d;
  }

  // f(id, weight) for each id that may be drawn and whose weight is not 0. Of rows that draw()
  // finds no fault in, and that are not greedy.
  template <class F>
  void each_kept(const float* settings, const int32_t* numbers, const F& f) {
    const DrawRow row = draw_row(settings, numbers, n_);
    keep(row, greatest_of(row.ids).value);
    each_block(last_distance_, [&](int64_t first, const Block& b) {
      for (int64_t i = 0; i < b.n; ++i)
        if (const uint64_t w = kept_weight(first + i, b, i); w > 0)
          f(static_cast<int32_t>(first + i), w);
    });
  }

 private:
  static constexpr int64_t kBlock = 128;    // logits that are weighed at a time
  static constexpr int64_t kDigits = 2048;  // of 11 bits, then 11, then 10
  static constexpr int kDigitShift[] = {21, 10, 0}, kDigitBits[] = {11, 11, 10};
  struct Block {
    int64_t n = 0;
    uint32_t distance[kBlock];
    uint64_t weight[kBlock];
  };
  // The value up to which the first of a set are, and the sum of those below it.
  struct Bound {
    uint32_t value = 0;
    uint64_t below = 0;
  };

  static constexpr int64_t blocks_of(int64_t n) { return (n + kBlock - 1) / kBlock; }
  static int32_t fault_of(const Greatest& g) {
    if (g.nan) return kLogitNan;
    if (std::isfinite(g.value)) return kNotDrawn;
    return g.value < 0 ? kLogitsImpossible : kLogitInfinite;
  }
  static uint32_t rank_of(float v) { return rank_of_bits(std::bit_cast<uint32_t>(v)); }

  // Also of each block, so that later loops leave out blocks that cannot matter.
  Greatest greatest_of(int64_t ids) {
    Greatest all;
    for (int64_t first = 0; first < ids; first += kBlock) {
      const Greatest g = Logits::greatest(x_ + first, std::min(kBlock, ids - first));
      greatest_bits_[first / kBlock] = std::bit_cast<uint32_t>(g.value);
      all.nan |= g.nan;
      all.value = g.value > all.value ? g.value : all.value;
    }
    return all;
  }
  float greatest_of_block(int64_t block) const {
    return std::bit_cast<float>(static_cast<uint32_t>(greatest_bits_[block]));
  }

  void weigh(int64_t first, int64_t end, Block& b) const {
    b.n = std::min(kBlock, end - first);
    Logits::weigh(x_ + first, b.n, greatest_, scale_, b.distance, b.weight);
  }
  // f(first, block) for the blocks that have an id which may be kept, at a distance up to `most`.
  template <class F>
  void each_block(uint32_t most, const F& f) const {
    most = std::min(most, kFarthest - 1);  // there the weight is 0
    Block b;
    for (int64_t first = 0; first < ids_; first += kBlock) {
      const float greatest = greatest_of_block(first / kBlock);
      if (distance_of(greatest - greatest_, scale_) > most) continue;
      if (rank_of(greatest) > last_rank_) continue;
      weigh(first, ids_, b);
      f(first, b);
    }
  }
  // Of number i of a block, which is `id`; 0: it is not drawn.
  uint64_t kept_weight(int64_t id, const Block& b, int64_t i) const {
    if (all_) return b.weight[i];
    const uint32_t distance = b.distance[i];
    const bool kept = distance < last_distance_ || (distance == last_distance_ && id <= last_id_);
    return kept && b.weight[i] >= least_ && rank_of(x_[id]) <= last_rank_ ? b.weight[i] : 0;
  }

  // each(most, add): calls add(value, part) for each member of a set, but it may leave out values
  // above `most`. Finds the least value up to which the parts sum up to target(sum of all) or more;
  // that is above 0 and at most the sum.
  template <class Each, class Target>
  Bound bound_of(uint32_t most, const Each& each, const Target& target) {
    Bound found;
    uint64_t wanted = 0;
    for (int level = 0; level < 3; ++level) {
      const int shift = kDigitShift[level], bits = kDigitBits[level];
      std::fill(scratch_, scratch_ + kDigits, 0);
      each(most, [&](uint32_t value, uint64_t part) {
        if (level == 0 || value >> (shift + bits) == found.value)
          scratch_[(value >> shift) & ((1u << bits) - 1)] += part;
      });
      if (level == 0) wanted = target(std::accumulate(scratch_, scratch_ + kDigits, uint64_t{0}));
      uint32_t digit = 0;
      while (found.below + scratch_[digit] < wanted) found.below += scratch_[digit++];
      found.value = found.value << bits | digit;
      most = found.value << shift | ((1u << shift) - 1);
    }
    return found;
  }

  // Chooses what may be drawn.
  void keep(const DrawRow& row, float greatest) {
    ids_ = row.ids, greatest_ = greatest, scale_ = row.scale;
    all_ = row.top_k == 0 && row.top_p == kAllOfSum && row.least == 0;
    last_rank_ = ~0u, last_distance_ = kFarthest, last_id_ = ids_, least_ = 0;
    if (row.top_k > 0) keep_top_k(row.top_k);
    if (row.top_p < kAllOfSum) keep_top_p(row);
    least_ = row.least;
  }
  // What is equal to the last of them stays, too. The greatest logits of k blocks are k logits, so
  // the least of them bounds the last one.
  void keep_top_k(int64_t k) {
    const auto target = [&](uint64_t) { return static_cast<uint64_t>(k); };
    const auto of_blocks = [&](uint32_t, const auto& add) {
      for (int64_t b = 0; b < blocks_of(ids_); ++b) add(rank_of(greatest_of_block(b)), 1);
    };
    const uint32_t bound = blocks_of(ids_) < k ? ~0u : bound_of(~0u, of_blocks, target).value;
    const auto of_logits = [&](uint32_t most, const auto& add) {
      for (int64_t first = 0; first < ids_; first += kBlock) {
        if (rank_of(greatest_of_block(first / kBlock)) > most) continue;
        const int64_t end = std::min(first + kBlock, ids_);
        for (int64_t i = first; i < end; ++i) add(rank_of(x_[i]), 1);
      }
    };
    last_rank_ = bound_of(bound, of_logits, target).value;
  }
  // A token stays while those that are likelier, or as likely with a lower id, sum up to less than
  // the part.
  void keep_top_p(const DrawRow& row) {
    uint64_t part = 0;
    const auto each = [&](uint32_t most, const auto& add) {
      each_block(most, [&](int64_t first, const Block& b) {
        for (int64_t i = 0; i < b.n; ++i)
          if (const uint64_t w = kept_weight(first + i, b, i); w > 0) add(b.distance[i], w);
      });
    };
    const auto target = [&](uint64_t sum) { return part = row.part_of(sum); };
    const Bound bound = bound_of(kFarthest, each, target);
    const uint64_t weight = weight_of(bound.value);
    auto left = static_cast<int64_t>((part - bound.below + weight - 1) / weight);
    int64_t last = 0;
    each_block(bound.value, [&](int64_t first, const Block& b) {
      for (int64_t i = 0; i < b.n && left > 0; ++i)
        if (b.distance[i] == bound.value && kept_weight(first + i, b, i) > 0)
          --left, last = first + i;
    });
    last_distance_ = bound.value, last_id_ = last;
  }

  // The id at the place `random` of the weights of what is kept, one behind the other.
  int32_t draw_kept(uint64_t random) {
    uint64_t total = 0;
    std::fill(scratch_, scratch_ + blocks_of(ids_), 0);
    each_block(last_distance_, [&](int64_t first, const Block& b) {
      uint64_t sum = 0;
      for (int64_t i = 0; i < b.n; ++i) sum += kept_weight(first + i, b, i);
      scratch_[first / kBlock] = sum;
      total += sum;
    });
    uint64_t at = multiply_high(random, total);
    int64_t first = 0;
    while (at >= scratch_[first / kBlock]) at -= scratch_[first / kBlock], first += kBlock;
    Block b;
    weigh(first, ids_, b);
    for (int64_t i = 0;; ++i) {
      const uint64_t w = kept_weight(first + i, b, i);
      if (at < w) return static_cast<int32_t>(first + i);
      at -= w;
    }
  }

  float log_probability(int32_t id, const Greatest& all) {
    if (all.nan || !std::isfinite(all.value)) return std::numeric_limits<float>::quiet_NaN();
    greatest_ = all.value, scale_ = distance_scale(1);
    uint64_t sum = 0;
    Block b;
    for (int64_t first = 0; first < n_; first += kBlock) {
      weigh(first, n_, b);
      sum = std::accumulate(b.weight, b.weight + b.n, sum);
    }
    const double log_sum = std::log(static_cast<double>(sum) * 0x1p-40);
    return static_cast<float>(static_cast<double>(x_[id]) - all.value - log_sum);
  }

  const float* x_;
  int64_t n_;
  uint64_t* scratch_;        // a histogram, or the sum of each block
  uint64_t* greatest_bits_;  // of each block, the bits of an f32
  int64_t ids_ = 0;
  float greatest_ = 0;
  double scale_ = 0;
  // What is kept: all, or ranks up to last_rank_, distances up to last_distance_, of that one ids
  // up to last_id_, and weights from least_ on.
  bool all_ = false;
  uint32_t last_rank_ = 0, last_distance_ = 0;
  int64_t last_id_ = 0;
  uint64_t least_ = 0;
};

}  // namespace plait::kit
