// statistics in double, in two steps: each block its part of the elements, then one thread for each
// figure the parts in their order. Counts of the histogram are whole numbers, so their order
// doesn't matter.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/statistics_args.hpp"

namespace plait::cuda {
namespace {

enum {
  kCount,
  kZeros,
  kNans,
  kPositiveInf,
  kNegativeInf,
  kUnderflowE4m3,
  kUnderflowE5m2,
  kAbs,
  kSum,
  kSquares,
  kCubes,
  kFourths,
  kGreatest,
  kLeast,
  kGreatestAbs,
  kLeastAbs
};

// The bin of a finite size above 0: the octave is its exponent, the bin within the octave the
// highest bits of its mantissa.
__device__ int32_t bin_of(double size) {
  const auto bits = static_cast<uint64_t>(__double_as_longlong(size));
  const int32_t octave = static_cast<int32_t>(bits >> 52) - 1023;
  if (octave < kLowestOctave) return 0;
  if (octave >= kHighestOctave) return kBinsOfOneSign - 1;
  const auto within = static_cast<int32_t>(bits >> (52 - kBinBits)) & ((1 << kBinBits) - 1);
  return ((octave - kLowestOctave) << kBinBits) + within;
}

__device__ void begin(double* figures) {
  for (int32_t i = 0; i < kFiguresOfStatistics; ++i)
    figures[i] = i < kSumsOfStatistics ? 0 : -kInfinity;
}

// The same as add_element() of kit/ops/statistics.cpp.
__device__ void add(double x, double* f, unsigned* bins) {
  f[kCount] += 1;
  if (!isfinite(x)) {
    f[kNans] += isnan(x) ? 1 : 0;
    f[kPositiveInf] += x > 0 ? 1 : 0;
    f[kNegativeInf] += x < 0 ? 1 : 0;
    return;
  }
  const double size = fabs(x), square = x * x;
  f[kZeros] += size == 0 ? 1 : 0;
  f[kUnderflowE4m3] += size > 0 && size <= 0x1p-10 ? 1 : 0;
  f[kUnderflowE5m2] += size > 0 && size <= 0x1p-17 ? 1 : 0;
  f[kAbs] += size;
  f[kSum] += x;
  f[kSquares] += square;
  f[kCubes] += square * x;
  f[kFourths] += square * square;
  f[kGreatest] = fmax(f[kGreatest], x);
  f[kLeast] = fmax(f[kLeast], -x);
  f[kGreatestAbs] = fmax(f[kGreatestAbs], size);
  f[kLeastAbs] = fmax(f[kLeastAbs], -size);
  if (bins && size > 0) atomicAdd(bins + (x > 0 ? kBinsOfOneSign : 0) + bin_of(size), 1u);
}

}  // namespace

PLAIT_GLOBAL(statistics_parts, StatisticsArgs, 256) {
  __shared__ unsigned bins[kBinsOfBothSigns];
  const double scale = a.scale ? *a.scale : 1;
  for (int32_t i = threadIdx.x; a.bins && i < kBinsOfBothSigns; i += blockDim.x) bins[i] = 0;
  __syncthreads();
  double figures[kFiguresOfStatistics];
  begin(figures);
  const int64_t first = blockIdx.x * a.part, end = min(first + a.part, a.n);
  // Four elements are loaded before they are added, or each one would wait for its own load.
  for (int64_t i = first + threadIdx.x; i < end; i += 4 * blockDim.x) {
    double x[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = i + j * blockDim.x < end ? get(a.x, i + j * blockDim.x) : 0;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (i + j * blockDim.x < end) add(x[j] * scale, figures, a.bins ? bins : nullptr);
  }
#pragma unroll
  for (int32_t i = 0; i < kFiguresOfStatistics; ++i) {
    const double all = i < kSumsOfStatistics ? over_block<Sum>(figures[i], 0.0)
                                             : over_block<Max>(figures[i], -kInfinity);
    if (threadIdx.x == 0) a.figures[int64_t{blockIdx.x} * kFiguresOfStatistics + i] = all;
  }
  __syncthreads();
  for (int32_t i = threadIdx.x; a.bins && i < kBinsOfBothSigns; i += blockDim.x)
    a.bins[int64_t{blockIdx.x} * kBinsOfBothSigns + i] = bins[i];
}

// A thread for each figure, then one for each bin.
PLAIT_GLOBAL(statistics_join, StatisticsArgs, 256) {
  const int32_t i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < kFiguresOfStatistics) {
    const bool sum = i < kSumsOfStatistics;
    double all = sum ? 0 : -kInfinity;
    for (int64_t p = 0; p < a.parts; ++p) {
      const double part = a.figures[p * kFiguresOfStatistics + i];
      all = sum ? all + part : fmax(all, part);
    }
    (sum ? a.sums[i] : a.extremes[i - kSumsOfStatistics]) = all;
  } else if (const int32_t bin = i - kFiguresOfStatistics; a.bins && bin < kBinsOfBothSigns) {
    uint64_t all = 0;
    for (int64_t p = 0; p < a.parts; ++p) all += a.bins[p * kBinsOfBothSigns + bin];
    a.sums[kSumsOfStatistics + bin] = static_cast<double>(all);
  }
}

}  // namespace plait::cuda
