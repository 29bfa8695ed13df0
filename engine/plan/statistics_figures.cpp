#include "engine/plan/statistics_figures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kit/ops/statistics.hpp"

namespace plait::plan {
namespace {

using namespace kit;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double padding(const TensorSums& t) {
  return std::max(0.0, t.sums[kCount] - static_cast<double>(t.elements));
}
double zeros(const TensorSums& t) { return t.sums[kZeros] - padding(t); }
double count(const TensorSums& t) { return t.sums[kCount] - padding(t); }
double finite(const TensorSums& t) {
  return count(t) - t.sums[kNans] - t.sums[kPositiveInf] - t.sums[kNegativeInf];
}
// Of all elements.
double share(const TensorSums& t, double n) { return count(t) > 0 ? n / count(t) : kUnknown; }
template <StatisticsSum sum>
double share_of(const TensorSums& t) {
  return share(t, t.sums[sum]);
}

// The moments are those of the finite elements.
template <StatisticsSum sum>
double moment(const TensorSums& t) {
  return finite(t) > 0 ? t.sums[sum] / finite(t) : kUnknown;
}
double deviation(double mean, double square) {
  const double variance = square - mean * mean;
  return variance < 0 ? 0 : std::sqrt(variance);
}
double std_of(const TensorSums& t) { return deviation(moment<kSum>(t), moment<kSquares>(t)); }
double abs_std(const TensorSums& t) { return deviation(moment<kAbs>(t), moment<kSquares>(t)); }
double skew(const TensorSums& t) {
  const double m = moment<kSum>(t), s = std_of(t);
  return (moment<kCubes>(t) - 3 * m * moment<kSquares>(t) + 2 * m * m * m) / (s * s * s);
}
// Of a normal distribution 3.
double kurtosis(const TensorSums& t) {
  const double m = moment<kSum>(t), s = std_of(t), m2 = m * m;
  return (moment<kFourths>(t) - 4 * m * moment<kCubes>(t) + 6 * m2 * moment<kSquares>(t) -
          3 * m2 * m2) /
         (s * s * s * s);
}

// Padding is 0, which may be the greatest or the least, where no element is.
template <StatisticsExtreme extreme>
double extreme_of(const TensorSums& t) {
  const double v = t.extremes[extreme];
  if (!(finite(t) > 0) || (v == 0 && padding(t) > 0 && !(zeros(t) > 0))) return kUnknown;
  return extreme == kLeast || extreme == kLeastAbs ? 0 - v : v;
}

// Hoyer 2004: 0 where all elements are alike in size, 1 where one alone is not 0.
double norm_sparsity(const TensorSums& t) {
  const double root = std::sqrt(finite(t));
  return (root - t.sums[kAbs] / std::sqrt(t.sums[kSquares])) / (root - 1);
}

// Elements of this size's bin.
double in_bin(const TensorSums& t, int64_t bin) {
  return t.sums[kStatisticsSums + bin] + t.sums[kStatisticsSums + kBins + bin];
}
// A place within a bin, as if its elements lay evenly there.
double within(int64_t bin, double part) {
  const double begin = statistics_bin_begin(bin), end = statistics_bin_begin(bin + 1);
  return begin + (end - begin) * part;
}

// The share of finite elements whose size is below a hundredth of the greatest.
double max_sparsity(const TensorSums& t) {
  const double limit = extreme_of<kGreatestAbs>(t) / 100;
  if (!(limit > 0)) return kUnknown;
  const int64_t last = statistics_bin(limit);
  double below = zeros(t);
  for (int64_t b = 0; b < last; ++b) below += in_bin(t, b);
  const double begin = statistics_bin_begin(last), end = statistics_bin_begin(last + 1);
  below += in_bin(t, last) * std::clamp((limit - begin) / (end - begin), 0.0, 1.0);
  return below / finite(t);
}

// The value behind a share q of the finite elements, in the order of their sizes.
double abs_quantile(const TensorSums& t, double q) {
  double left = q * finite(t) - zeros(t);
  if (!(finite(t) > 0)) return kUnknown;
  if (left <= 0) return 0;
  for (int64_t b = 0; b < kBins; ++b) {
    if (const double n = in_bin(t, b); left > n)
      left -= n;
    else
      return std::min(within(b, left / n), t.extremes[kGreatestAbs]);
  }
  return t.extremes[kGreatestAbs];
}
// The same in the order of the elements.
double quantile(const TensorSums& t, double q) {
  if (!(finite(t) > 0)) return kUnknown;
  double left = q * finite(t);
  const double* below = t.sums + kStatisticsSums;
  for (int64_t b = kBins; b-- > 0;) {
    if (left <= below[b] && below[b] > 0)
      return std::max(-within(b, 1 - left / below[b]), -t.extremes[kLeast]);
    left -= below[b];
  }
  if (left <= zeros(t)) return 0;
  left -= zeros(t);
  for (int64_t b = 0; b < kBins; ++b) {
    if (const double n = below[kBins + b]; left <= n && n > 0)
      return std::min(within(b, left / n), t.extremes[kGreatest]);
    left -= below[kBins + b];
  }
  return t.extremes[kGreatest];
}
template <int percent>
double quantile_of(const TensorSums& t) {
  return quantile(t, percent / 100.0);
}
template <int percent>
double abs_quantile_of(const TensorSums& t) {
  return abs_quantile(t, percent / 100.0);
}

constexpr StatisticsFigure kFigures[] = {
    {"mean", false, moment<kSum>},
    {"std", false, std_of},
    {"skew", false, skew},
    {"kurtosis", false, kurtosis},
    {"l1", false, [](const TensorSums& t) { return t.sums[kAbs]; }},
    {"l2", false, [](const TensorSums& t) { return std::sqrt(t.sums[kSquares]); }},
    {"min", false, extreme_of<kLeast>},
    {"max", false, extreme_of<kGreatest>},
    {"median", true, quantile_of<50>},
    {"abs_mean", false, moment<kAbs>},
    {"abs_std", false, abs_std},
    {"abs_min", false, extreme_of<kLeastAbs>},
    {"abs_max", false, extreme_of<kGreatestAbs>},
    {"abs_median", true, abs_quantile_of<50>},
    {"zero", false, [](const TensorSums& t) { return share(t, zeros(t)); }},
    {"nan", false, share_of<kNans>},
    {"pos_inf", false, share_of<kPositiveInf>},
    {"neg_inf", false, share_of<kNegativeInf>},
    {"underflow_e4m3", false, share_of<kUnderflowE4m3>},
    {"underflow_e5m2", false, share_of<kUnderflowE5m2>},
    {"max_sparsity", true, max_sparsity},
    {"norm_sparsity", false, norm_sparsity},
    {"q01", true, quantile_of<1>},
    {"q10", true, quantile_of<10>},
    {"q25", true, quantile_of<25>},
    {"q75", true, quantile_of<75>},
    {"q90", true, quantile_of<90>},
    {"q99", true, quantile_of<99>},
    {"abs_q01", true, abs_quantile_of<1>},
    {"abs_q10", true, abs_quantile_of<10>},
    {"abs_q25", true, abs_quantile_of<25>},
    {"abs_q75", true, abs_quantile_of<75>},
    {"abs_q90", true, abs_quantile_of<90>},
    {"abs_q99", true, abs_quantile_of<99>},
};

}  // namespace

std::span<const StatisticsFigure> statistics_figures() { return kFigures; }

}  // namespace plait::plan
