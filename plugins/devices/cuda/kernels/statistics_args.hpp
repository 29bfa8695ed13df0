// What the kernels of statistics receive. The elements are cut into parts of equal size, a block
// for each; the workspace holds the results of the parts.
#pragma once

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

// As in kit/ops/statistics.hpp, which device code can't include.
inline constexpr int32_t kSumsOfStatistics = 12, kExtremesOfStatistics = 4,
                         kFiguresOfStatistics = kSumsOfStatistics + kExtremesOfStatistics;
inline constexpr int32_t kLowestOctave = -64, kHighestOctave = 64, kBinBits = 4,
                         kBinsOfOneSign = (kHighestOctave - kLowestOctave) << kBinBits,
                         kBinsOfBothSigns = 2 * kBinsOfOneSign;

struct StatisticsArgs {
  AnyPointer x;
  const double* scale;  // nullptr: 1
  double *sums, *extremes;
  double* figures;  // (parts, kFiguresOfStatistics): sums, then extremes
  uint32_t* bins;   // (parts, kBinsOfBothSigns); nullptr: no histogram
  int64_t n, part;  // elements; of each part
  int64_t parts;
};

}  // namespace plait::cuda
