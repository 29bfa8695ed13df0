// Cases of statistics: sizes around vectors and pieces, special numbers, every size of number.
#include <limits>

#include "kit/ops/statistics.hpp"
#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

using plait::kit::kBins;
using plait::kit::kStatisticsExtremes;
using plait::kit::kStatisticsSums;

Case statistics(uint32_t type, int64_t n, bool histogram, bool scaled) {
  const plait_shape x = shape(type, {n}), one = shape(PLAIT_F64, {});
  const int64_t sums = kStatisticsSums + (histogram ? 2 * kBins : 0);
  Case c{std::string("statistics of ") + plait::Shape(x).text() + (histogram ? ", histogram" : "") +
             (scaled ? ", scaled" : ""),
         "statistics",
         {{x, -2, 2}},
         {shape(PLAIT_F64, {sums}), shape(PLAIT_F64, {kStatisticsExtremes})},
         {flag("histogram", histogram)}};
  if (scaled) c.inputs.push_back({one, 0.25, 0.5});
  c.scale = 1 + static_cast<double>(n);
  return c;
}

}  // namespace

void add_statistics_cases(std::vector<Case>& out) {
  for (const int64_t n : {0, 1, 7, 8, 15, 16, 17, 33, 1000, 4096, 4097, 70001})
    for (const bool scaled : {false, true})
      out.push_back(statistics(PLAIT_F32, n, n % 2 == 1, scaled));
  for (const uint32_t type : {PLAIT_F64, PLAIT_BF16, PLAIT_F16})
    out.push_back(statistics(type, 333, true, true));
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNan = std::numeric_limits<double>::quiet_NaN();
  for (const bool histogram : {false, true}) {
    Case special = statistics(PLAIT_F32, 40, histogram, false);
    special.name += ", special numbers";
    special.inputs[0].set = {{0, kInf},     {1, -kInf},    {2, kNan},     {3, 0.0},
                             {4, -0.0},     {5, 0x1p-10},  {6, -0x1p-10}, {7, 0x1.002p-10},
                             {8, 0x1p-17},  {9, 0x1p-140}, {10, 0x1p-60}, {11, -0x1p-64},
                             {12, 0x1p-65}, {39, kNan}};
    out.push_back(special);
    Case large = statistics(PLAIT_F32, 20, histogram, true);
    large.name += ", large numbers";
    large.inputs[0].set = {{2, 0x1.fp63}, {3, -0x1p64}, {4, 0x1p100}};
    large.scale = 0x1p400;  // of the fourth power
    out.push_back(large);
  }
  // Of elements of one sign, so that each result may differ by its own rounding alone.
  const struct {
    double scale;
    const char* text;
  } scales[] = {{0, "0"},           {-1.5, "-1.5"},       {3e-4, "3e-4"},
                {0x1p-10, "2^-10"}, {0x1p-101, "2^-101"}, {0x1p101, "2^101"},
                {kInf, "inf"},      {kNan, "nan"}};
  for (const auto& by : scales) {
    Case scaled = statistics(PLAIT_F32, 50, false, true);
    scaled.name += std::string(", by ") + by.text;
    scaled.inputs[0] = {scaled.inputs[0].shape, 0.5, 2};
    scaled.inputs[0].set = {{0, 0.0}, {1, 1.0}, {2, 0x1p-7}};
    scaled.inputs[1].set = {{0, by.scale}};
    scaled.scale = 0;
    out.push_back(scaled);
  }
  // 0 times a power of a scale that is infinite would be nan.
  for (const double scale : {0x1p-300, 0x1p300}) {
    Case zeros = statistics(PLAIT_F32, 50, false, true);
    zeros.name += scale < 1 ? ", zeros by 2^-300" : ", zeros by 2^300";
    for (int64_t i = 0; i < 50; ++i) zeros.inputs[0].set.push_back({i, 0.0});
    zeros.inputs[1].set = {{0, scale}};
    zeros.scale = 0;
    out.push_back(zeros);
  }
  Case nothing = statistics(PLAIT_F32, 20, true, false);
  nothing.name += ", none finite";
  for (int64_t i = 0; i < 20; ++i) nothing.inputs[0].set.push_back({i, i % 2 ? kInf : kNan});
  out.push_back(nothing);
}

}  // namespace conformance
