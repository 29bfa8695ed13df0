// Figures of a tensor against their definitions.
#include "engine/plan/statistics_figures.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kit/ops/statistics.hpp"

namespace {

using namespace plait;
using plan::StatisticsFigure;

struct Counted {
  std::vector<double> sums, extremes;
  int64_t elements = 0;
  double operator[](const std::string& name) const {
    for (const StatisticsFigure& f : plan::statistics_figures())
      if (f.name == name) return f.value({sums.data(), extremes.data(), elements});
    FAIL("no figure " << name);
    return 0;
  }
};

Counted count(const std::vector<double>& x, int64_t padding = 0) {
  Counted c{std::vector<double>(kit::kStatisticsSums + 2 * kit::kBins),
            std::vector<double>(kit::kStatisticsExtremes), static_cast<int64_t>(x.size())};
  kit::begin_statistics(c.sums.data(), static_cast<int64_t>(c.sums.size()), c.extremes.data());
  for (const double v : x) kit::add_element(v, true, c.sums.data(), c.extremes.data());
  for (int64_t i = 0; i < padding; ++i) kit::add_element(0, true, c.sums.data(), c.extremes.data());
  return c;
}

double power_mean(const std::vector<double>& x, double center, int power) {
  double sum = 0;
  for (const double v : x) sum += std::pow(v - center, power);
  return sum / static_cast<double>(x.size());
}

std::vector<double> some_numbers() {
  std::mt19937 random(5);
  std::gamma_distribution<double> draw(2, 0.3);
  std::vector<double> x(5000);
  for (double& v : x) v = draw(random) - 0.4;
  x[0] = x[1] = 0;
  return x;
}

}  // namespace

TEST_CASE("a histogram is counted for quantiles and max_sparsity alone") {
  for (const StatisticsFigure& f : plan::statistics_figures()) {
    const std::string name = f.name;
    CAPTURE(name);
    const bool quantile = name.find("median") != std::string::npos || name.starts_with("q") ||
                          name.starts_with("abs_q");
    CHECK(f.histogram == (quantile || name == "max_sparsity"));
  }
}

TEST_CASE("figures of a tensor are what their names say") {
  const std::vector<double> x = some_numbers();
  const Counted c = count(x);
  const double n = static_cast<double>(x.size()), mean = power_mean(x, 0, 1),
               std = std::sqrt(power_mean(x, mean, 2));
  CHECK(c["mean"] == doctest::Approx(mean));
  CHECK(c["std"] == doctest::Approx(std));
  CHECK(c["skew"] == doctest::Approx(power_mean(x, mean, 3) / std::pow(std, 3)));
  CHECK(c["kurtosis"] == doctest::Approx(power_mean(x, mean, 4) / std::pow(std, 4)));
  CHECK(c["l2"] == doctest::Approx(std::sqrt(n * power_mean(x, 0, 2))));
  std::vector<double> sizes;
  for (const double v : x) sizes.push_back(std::fabs(v));
  const double abs_mean = power_mean(sizes, 0, 1);
  CHECK(c["l1"] == doctest::Approx(n * abs_mean));
  CHECK(c["abs_mean"] == doctest::Approx(abs_mean));
  CHECK(c["abs_std"] == doctest::Approx(std::sqrt(power_mean(sizes, abs_mean, 2))));
  CHECK(c["min"] == *std::min_element(x.begin(), x.end()));
  CHECK(c["max"] == *std::max_element(x.begin(), x.end()));
  CHECK(c["abs_max"] == *std::max_element(sizes.begin(), sizes.end()));
  CHECK(c["abs_min"] == 0);
  CHECK(c["zero"] == 2 / n);
  CHECK(c["norm_sparsity"] ==
        doctest::Approx((std::sqrt(n) - c["l1"] / c["l2"]) / (std::sqrt(n) - 1)));
}

TEST_CASE("quantiles are exact within a bin of the histogram") {
  std::vector<double> x = some_numbers(), sizes;
  for (const double v : x) sizes.push_back(std::fabs(v));
  const Counted c = count(x);
  std::sort(x.begin(), x.end());
  std::sort(sizes.begin(), sizes.end());
  const auto at = [](const std::vector<double>& sorted, int percent) {
    return sorted[sorted.size() * static_cast<size_t>(percent) / 100];
  };
  for (const int percent : {1, 10, 25, 75, 90, 99}) {
    CAPTURE(percent);
    const std::string name = (percent < 10 ? "q0" : "q") + std::to_string(percent);
    const double plain = at(x, percent), size = at(sizes, percent);
    CHECK(std::fabs(c[name] - plain) <= std::fabs(plain) / kit::kBinsPerOctave);
    CHECK(std::fabs(c["abs_" + name] - size) <= size / kit::kBinsPerOctave);
  }
  CHECK(std::fabs(c["median"] - at(x, 50)) <= std::fabs(at(x, 50)) / kit::kBinsPerOctave);
  const double limit = sizes.back() / 100;
  const auto below =
      static_cast<double>(std::lower_bound(sizes.begin(), sizes.end(), limit) - sizes.begin());
  CHECK(c["max_sparsity"] == doctest::Approx(below / static_cast<double>(x.size())).epsilon(0.1));
}

TEST_CASE("quantiles of one element below zero and one above") {
  const Counted c = count({-3, 0, 5});
  CHECK(c["q01"] == -3);
  CHECK(c["median"] == 0);
  CHECK(c["q99"] == 5);
}

TEST_CASE("what is not finite has its share, and no part in other figures") {
  const double inf = std::numeric_limits<double>::infinity();
  const Counted c = count({1, 3, inf, inf, -inf, NAN, 0x1p-12, 0});
  CHECK(c["pos_inf"] == 2.0 / 8);
  CHECK(c["neg_inf"] == 1.0 / 8);
  CHECK(c["nan"] == 1.0 / 8);
  CHECK(c["underflow_e4m3"] == 1.0 / 8);
  CHECK(c["underflow_e5m2"] == 0);
  CHECK(c["mean"] == doctest::Approx((4 + 0x1p-12) / 4));
  CHECK(c["max"] == 3);
  const Counted nothing = count({NAN, inf});
  for (const char* name : {"mean", "std", "min", "abs_max", "median", "abs_q10"})
    CHECK(std::isnan(nothing[name]));
}

TEST_CASE("padding is no element") {
  const Counted c = count({2, 4, 6}, 5);
  CHECK(c["mean"] == 4);
  CHECK(c["zero"] == 0);
  CHECK(c["max"] == 6);
  CHECK(c["abs_median"] == doctest::Approx(4).epsilon(1.0 / kit::kBinsPerOctave));
  CHECK(std::isnan(c["min"]));  // 0 is that of the padding
  CHECK(count({0, 2}, 5)["min"] == 0);
  CHECK(count({-1, 2}, 5)["min"] == -1);
}

TEST_CASE("bins of the histogram cover all sizes") {
  for (int64_t b = 1; b < kit::kBins; ++b) {
    const double begin = kit::statistics_bin_begin(b);
    REQUIRE(kit::statistics_bin(begin) == b);
    REQUIRE(kit::statistics_bin(std::nextafter(begin, 0)) == b - 1);
  }
  CHECK(kit::statistics_bin(0x1p-1000) == 0);
  CHECK(kit::statistics_bin(0x1p1000) == kit::kBins - 1);
}
