#include "kit/ops/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plait::kit {

int64_t statistics_bin(double size) {
  int exponent = 0;
  const double half = std::frexp(size, &exponent);  // size = half * 2^exponent, half in [0.5, 1)
  const int octave = exponent - 1;
  if (octave < kLowest) return 0;
  if (octave >= kHighest) return kBins - 1;
  const auto within = static_cast<int64_t>((2 * half - 1) * kBinsPerOctave);
  return int64_t{octave - kLowest} * kBinsPerOctave + within;
}

double statistics_bin_begin(int64_t bin) {
  const auto octave = static_cast<int>(bin / kBinsPerOctave) + kLowest;
  const double within = static_cast<double>(bin % kBinsPerOctave) / kBinsPerOctave;
  return std::ldexp(1 + within, octave);
}

Statistics parse_statistics(const plait_op_desc& d) {
  need(d.n_inputs == 1 || d.n_inputs == 2,
       "takes x and, if wanted, a scale, found " + std::to_string(d.n_inputs) + " inputs");
  need_operands(d, d.n_inputs, 2);
  need_floats(d.inputs[0], "x");
  Statistics s;
  s.n = elements(d.inputs[0]);
  s.histogram = AttrReader(d, kStatisticsAttrs).flag("histogram");
  s.scaled = d.n_inputs == 2;
  if (s.scaled)
    need(d.inputs[1].dtype == PLAIT_F64 && elements(d.inputs[1]) == 1,
         "the scale needs one number of f64, found " + text(d.inputs[1]));
  if (has_outputs(d)) {
    need_count(d.outputs[0], s.sums(), "the sums");
    need_count(d.outputs[1], kStatisticsExtremes, "the extremes");
    for (const uint32_t i : {0u, 1u})
      need(d.outputs[i].dtype == PLAIT_F64, "results need f64, found " + text(d.outputs[i]));
  }
  return s;
}

void begin_statistics(double* sums, int64_t n_sums, double* extremes) {
  std::fill(sums, sums + n_sums, 0);
  std::fill(extremes, extremes + kStatisticsExtremes, -std::numeric_limits<double>::infinity());
}

void add_element(double x, bool histogram, double* sums, double* extremes) {
  ++sums[kCount];
  if (!std::isfinite(x)) {
    ++sums[std::isnan(x) ? kNans : x > 0 ? kPositiveInf : kNegativeInf];
    return;
  }
  const double size = std::fabs(x), square = x * x;
  sums[kZeros] += size == 0 ? 1 : 0;
  sums[kUnderflowE4m3] += size > 0 && size <= kHalfLeastE4m3 ? 1 : 0;
  sums[kUnderflowE5m2] += size > 0 && size <= kHalfLeastE5m2 ? 1 : 0;
  sums[kAbs] += size;
  sums[kSum] += x;
  sums[kSquares] += square;
  sums[kCubes] += square * x;
  sums[kFourths] += square * square;
  extremes[kGreatest] = std::max(extremes[kGreatest], x);
  extremes[kLeast] = std::max(extremes[kLeast], -x);
  extremes[kGreatestAbs] = std::max(extremes[kGreatestAbs], size);
  extremes[kLeastAbs] = std::max(extremes[kLeastAbs], -size);
  if (histogram && size > 0) ++sums[kStatisticsSums + (x > 0 ? kBins : 0) + statistics_bin(size)];
}

void join_statistics(const double* other_sums, int64_t n_sums, const double* other_extremes,
                     double* sums, double* extremes) {
  for (int64_t i = 0; i < n_sums; ++i) sums[i] += other_sums[i];
  for (int64_t i = 0; i < kStatisticsExtremes; ++i)
    extremes[i] = std::max(extremes[i], other_extremes[i]);
}

}  // namespace plait::kit
