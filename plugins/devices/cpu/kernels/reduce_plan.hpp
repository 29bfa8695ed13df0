// How a reduction is cut into passes and pieces: a pure function of its shape. The number of
// threads decides only which thread does which piece.
#pragma once

#include <algorithm>
#include <string>

#include "kit/ops/reduce.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {

constexpr int64_t kLongRow = 16384, kTallStack = 512;
constexpr double kReduceNanoseconds = 0.1;

// The passes. With both, the inner one leaves (tall, wide) in the workspace for the outer one.
struct ReducePlan {
  int64_t rows = 0, n = 0;                // inner: rows of n elements
  int64_t batch = 0, tall = 0, wide = 0;  // outer: (batch, tall, wide) to (batch, wide)
  int64_t parts = 1, stacks = 1;          // pieces of a long row; of a tall stack
  int64_t between = 0;                    // floats of the workspace that hold the inner result
  int inner_threads = 1, outer_threads = 1;
  std::string what;

  uint64_t workspace() const {
    const int64_t pieces =
        std::max(parts > 1 ? rows * parts : 0, stacks > 1 ? batch * stacks * wide : 0);
    return static_cast<uint64_t>(between + pieces) * sizeof(float);
  }
};

// `what` stays empty when the axes make no pattern of these.
inline ReducePlan plan_of(const kit::Reduce& r, uint32_t threads) {
  ReducePlan p;
  const size_t n = r.dims.size();
  const auto extent = [&](size_t i) { return r.dims[i].extent; };
  if (n == 0 || (n == 1 && !r.reduced[0])) {
    p.rows = r.kept, p.n = r.summed, p.what = "copy";
  } else if (n == 1) {
    p.rows = 1, p.n = extent(0), p.what = "everything";
  } else if (n == 2 && r.reduced[1]) {
    p.rows = extent(0), p.n = extent(1), p.what = "rows";
  } else if (n == 2) {
    p.batch = 1, p.tall = extent(0), p.wide = extent(1), p.what = "columns";
  } else if (n == 3 && r.reduced[1]) {
    p.batch = extent(0), p.tall = extent(1), p.wide = extent(2), p.what = "middle";
  } else if (n == 3) {
    p.rows = extent(0) * extent(1), p.n = extent(2), p.what = "rows, then columns";
    p.batch = 1, p.tall = extent(0), p.wide = extent(1);
    p.between = p.rows;
  }
  if (p.n > 2 * kLongRow) p.parts = (p.n + kLongRow - 1) / kLongRow;
  if (p.tall > 2 * kTallStack) p.stacks = (p.tall + kTallStack - 1) / kTallStack;
  const auto cost = [](int64_t a, int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b) * kReduceNanoseconds;
  };
  p.inner_threads = choose_num_threads(threads, cost(p.rows, p.n), p.rows * p.parts);
  p.outer_threads = choose_num_threads(threads, cost(p.batch * p.tall, p.wide), p.batch * p.stacks);
  return p;
}

}  // namespace plait::cpu
