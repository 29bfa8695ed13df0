// The figures of a tensor: what can be asked for, and how it follows from sums and extremes.
#pragma once

#include <cstdint>
#include <span>

namespace plait::plan {

// Of one tensor, over all ranks; see kit/ops/statistics.hpp.
struct TensorSums {
  const double* sums = nullptr;
  const double* extremes = nullptr;
  int64_t elements = 0;  // the rest of those that were counted is padding, which is 0
};

struct StatisticsFigure {
  const char* name;
  bool histogram;  // needs one; exact within a sixteenth of a power of two
  // NaN where it is not known: nothing is finite, or padding hides the least size.
  double (*value)(const TensorSums& of);
};

// All of them, in the order in which they are written.
std::span<const StatisticsFigure> statistics_figures();

}  // namespace plait::plan
