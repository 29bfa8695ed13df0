#include "engine/data/sample_order.hpp"

#include <algorithm>
#include <cmath>

#include "kit/philox.hpp"

namespace plait::data {

namespace {

// A number in [0, range) from value and key: two multiplications and a fold, scaled by a third
// multiplication. Not cryptographic, but each bit of the result depends on each bit of value and
// key. range <= 2^32.
uint64_t draw(uint64_t value, uint64_t key, uint64_t range) {
  value = (value ^ key) * 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 32)) * 0xD6E8FEB86659FD93u;
  return (value >> 32) * range >> 32;
}

// The smallest r with r * r >= n.
uint64_t root_above(uint64_t n) {
  auto r = std::max<uint64_t>(1, static_cast<uint64_t>(std::sqrt(static_cast<double>(n))));
  while (r * r < n) ++r;
  while (r > 1 && (r - 1) * (r - 1) >= n) --r;
  return r;
}

}  // namespace

int64_t batches_per_epoch(int64_t n, int64_t batch) { return n / batch + (n % batch != 0); }

SampleOrder::SampleOrder(uint64_t seed, int64_t epoch, int64_t n, bool shuffle)
    : n_(static_cast<uint64_t>(n)), shuffle_(shuffle && n > 1) {
  if (!shuffle_) return;
  columns_ = root_above(n_);
  rows_ = (n_ + columns_ - 1) / columns_;
  // The high word of the counter separates this use of the seed from the random streams of
  // programs.
  constexpr uint64_t kPurpose = 0x6F72646572000000u;  // "order"
  for (size_t i = 0; i < kRounds; i += 2) {
    const auto words = kit::philox(static_cast<uint64_t>(epoch), kPurpose + i, seed);
    keys_[i] = words[0] | uint64_t{words[1]} << 32;
    keys_[i + 1] = words[2] | uint64_t{words[3]} << 32;
  }
}

// Each round shifts one coordinate by a function of the other and can be undone, so this is a
// bijection of the rectangle for any draw().
uint64_t SampleOrder::permute(uint64_t value) const {
  uint64_t row = value / columns_, column = value % columns_;
  for (size_t i = 0; i < kRounds; i += 2) {
    row += draw(column, keys_[i], rows_);
    row -= row >= rows_ ? rows_ : 0;
    column += draw(row, keys_[i + 1], columns_);
    column -= column >= columns_ ? columns_ : 0;
  }
  return row * columns_ + column;
}

int64_t SampleOrder::operator()(int64_t position) const {
  if (!shuffle_) return position;
  // The rectangle has fewer than sqrt(n) excess cells, so a second step is rare. The walk ends
  // because the cycle of a permutation through a position below n returns to it.
  uint64_t value = static_cast<uint64_t>(position);
  do value = permute(value);
  while (value >= n_);
  return static_cast<int64_t>(value);
}

int64_t position_to_sample(uint64_t seed, int64_t epoch, int64_t position, int64_t n,
                           bool shuffle) {
  return SampleOrder(seed, epoch, n, shuffle)(position);
}

}  // namespace plait::data
