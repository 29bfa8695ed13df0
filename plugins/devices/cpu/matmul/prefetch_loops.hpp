// Prefetches rows of weights ahead of the loops that multiply a few of them at a time. The
// including file first defines PLAIT_TARGET.
#pragma once

#ifndef PLAIT_TARGET
#error "define PLAIT_TARGET before this header"
#endif

#include <algorithm>
#include <cstdint>
#include <utility>

namespace plait::cpu {

constexpr int64_t kLineBytes = 64;

// For as many rows as there are j, each `row_bytes` behind the one before, of which the loop is at
// byte `at` of each: their lines from near by into the first cache; and as many lines of the rows
// behind them into the second, in the order in which they lie. Memory thus sees one stream,
// whatever the number of rows; the hardware prefetcher follows several streams badly.
template <int... j>
PLAIT_TARGET __attribute__((always_inline)) static inline void prefetch_rows(
    const void* rows, int64_t row_bytes, int64_t at, std::integer_sequence<int, j...>) {
  constexpr int64_t kNear = 8 * kLineBytes;
  constexpr int64_t kLeastFar = 128 * kLineBytes, kMostFar = 4096 * kLineBytes;
  constexpr int64_t kRows = sizeof...(j);
  const char* const from = static_cast<const char*>(rows);
  const char* const far = from + std::clamp(kRows * row_bytes, kLeastFar, kMostFar) + kRows * at;
  (__builtin_prefetch(from + j * row_bytes + at + kNear, 0, 3), ...);
  (__builtin_prefetch(far + j * kLineBytes, 0, 2), ...);
}

}  // namespace plait::cpu
