// The order of samples: a pure function of (seed, epoch, position), independent of the number of
// ranks, batches and threads.
#pragma once

#include <array>
#include <cstdint>

namespace plait::data {

// The number of batches of `batch` samples that hold n samples; the last one may be incomplete. n
// >= 0, batch >= 1.
int64_t batches_per_epoch(int64_t n, int64_t batch);

// A permutation of [0, n) for one epoch, without a table: a keyed Feistel network over a rectangle
// of rows * columns >= n cells, repeated until the result is inside [0, n). The round keys come
// from Philox (seed, epoch). shuffle = false: the identity. Immutable and allocation-free; about 20
// ns per sample.
class SampleOrder {
 public:
  SampleOrder() = default;  // empty
  SampleOrder(uint64_t seed, int64_t epoch, int64_t n, bool shuffle);
  // The sample at a position of the epoch. position in [0, n).
  int64_t operator()(int64_t position) const;

 private:
  static constexpr int kRounds = 6;
  uint64_t permute(uint64_t value) const;
  uint64_t n_ = 0;
  uint64_t rows_ = 1, columns_ = 1;
  bool shuffle_ = false;
  std::array<uint64_t, kRounds> keys_{};
};

// The same for one position.
int64_t position_to_sample(uint64_t seed, int64_t epoch, int64_t position, int64_t n, bool shuffle);

}  // namespace plait::data
