// Sums, counts and extremes of the elements of a tensor, from which figures such as mean, standard
// deviation and quantiles follow. Those of parts of a tensor add up to those of the whole, but for
// the extremes, of which the greatest count.
#pragma once

#include <cstdint>

#include "kit/op_attrs.hpp"

namespace plait::kit {

inline constexpr plait_option kStatisticsAttrs[] = {
    bool_option("histogram", "false", "also counts of the elements by size"),
};

// The first result, f64: counts and sums. What is not finite is counted and in no sum.
enum StatisticsSum : int64_t {
  kCount,          // elements
  kZeros,          // ... that are 0
  kNans,           // ... that are NaN
  kPositiveInf,    // ... that are +inf
  kNegativeInf,    // ... that are -inf
  kUnderflowE4m3,  // ... not 0 that rounding to fp8 e4m3 makes 0
  kUnderflowE5m2,  // ... not 0 that rounding to fp8 e5m2 makes 0
  kAbs,            // of |x|
  kSum,            // of x
  kSquares,        // of x^2
  kCubes,          // of x^3
  kFourths,        // of x^4
  kStatisticsSums,
};
// The second result, f64: of the finite elements, -inf where there are none.
enum StatisticsExtreme : int64_t {
  kGreatest,     // x
  kLeast,        // -x
  kGreatestAbs,  // |x|
  kLeastAbs,     // -|x|
  kStatisticsExtremes,
};

// Half of the least number above 0: e4m3 has 2^-9 (OCP 8-bit floating point, 2023), e5m2 2^-16.
// What is not larger rounds to 0, ties to even.
inline constexpr double kHalfLeastE4m3 = 0x1p-10, kHalfLeastE5m2 = 0x1p-17;

// The histogram, behind the sums: first of elements below 0, then of those above, each from the
// smallest size up. A power of two has kBinsPerOctave bins of equal width; sizes below 2^kLowest
// count in the first bin, from 2^kHighest on in the last. Zeros and what is not finite are in none.
inline constexpr int kLowest = -64, kHighest = 64, kBinsPerOctave = 16;
inline constexpr int64_t kBins = (kHighest - kLowest) * kBinsPerOctave;

// The bin of a size above 0.
int64_t statistics_bin(double size);
// The least size in a bin; of kBins the end of the last one.
double statistics_bin_begin(int64_t bin);

struct Statistics {
  int64_t n = 0;  // elements
  bool histogram = false;
  bool scaled = false;  // input 1 is a number that each element is multiplied by
  int64_t sums() const { return kStatisticsSums + (histogram ? 2 * kBins : 0); }
};
Statistics parse_statistics(const plait_op_desc& d);

// The sums and extremes of one part, begun without elements: sums (Statistics::sums()), extremes
// (kStatisticsExtremes).
void begin_statistics(double* sums, int64_t n_sums, double* extremes);
// Adds one element.
void add_element(double x, bool histogram, double* sums, double* extremes);
// Adds another part.
void join_statistics(const double* other_sums, int64_t n_sums, const double* other_extremes,
                     double* sums, double* extremes);

}  // namespace plait::kit
