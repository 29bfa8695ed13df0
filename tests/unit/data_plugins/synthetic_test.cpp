#include <cmath>
#include <set>

#include "tests/unit/data_plugins/dataset_bench.hpp"

using namespace plait;
using fake::contains;
using fake::Dataset;
using fake::open_error;
using fake::Options;

namespace {
std::vector<int64_t> range(int64_t n) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}
}  // namespace

TEST_CASE("synthetic samples have variance 1, all labels occur, and are the same every time") {
  const Dataset d("synthetic",
                  {{"samples", "2000"}, {"shape", "[3, 4]"}, {"classes", "5"}, {"seed", "3"}});
  CHECK(d.info().n_samples == 2000);
  CHECK(d.dims(0) == std::vector<int64_t>{3, 4});
  CHECK(d.dims(1).empty());
  CHECK(d.info().fields[1].shape.dtype == PLAIT_I32);
  double sum = 0, square = 0;
  const auto x = d.read<float>(0, range(2000));
  for (const float v : x) sum += v, square += double{v} * v;
  CHECK(std::abs(sum / static_cast<double>(x.size())) < 0.03);
  CHECK(square / static_cast<double>(x.size()) == doctest::Approx(1).epsilon(0.03));
  const auto labels = d.read<int32_t>(1, range(2000));
  CHECK(std::set<int32_t>(labels.begin(), labels.end()) == std::set<int32_t>{0, 1, 2, 3, 4});
  const Dataset again("synthetic",
                      {{"samples", "2000"}, {"shape", "[3, 4]"}, {"classes", "5"}, {"seed", "3"}});
  CHECK(again.info().fingerprint == d.info().fingerprint);
  const Dataset other("synthetic",
                      {{"samples", "2000"}, {"shape", "[3, 4]"}, {"classes", "5"}, {"seed", "4"}});
  CHECK(other.info().fingerprint != d.info().fingerprint);
}

TEST_CASE("synthetic samples from `first` on continue the same set, labels included") {
  const Dataset all("synthetic", {{"samples", "20"}}),
      tail("synthetic", {{"samples", "5"}, {"first", "15"}});
  CHECK(all.read<float>(0, {15, 19}) == tail.read<float>(0, {0, 4}));
  CHECK(all.read<int32_t>(1, {15, 19}) == tail.read<int32_t>(1, {0, 4}));
}

TEST_CASE("synthetic values are the same on every machine") {
  const Dataset d("synthetic", {{"samples", "2"}, {"shape", "[2]"}});
  for (const float v : d.read<float>(0, {0, 1})) CHECK(std::abs(v) <= std::sqrt(3.0f));
  const Dataset r("synthetic", {{"samples", "3"}, {"shape", "[2]"}, {"classes", "0"}});
  CHECK(r.field(1) == "target");
  CHECK(r.dims(1) == std::vector<int64_t>{1});
  // One linear function: its value is the target of each sample.
  const auto x = r.read<float>(0, {0, 1, 2}), y = r.read<float>(1, {0, 1, 2});
  const double det = double{x[0]} * x[3] - double{x[1]} * x[2];
  const double a = (double{y[0]} * x[3] - double{x[1]} * y[1]) / det,
               b = (double{x[0]} * y[1] - double{y[0]} * x[2]) / det;
  CHECK(a * x[4] + b * x[5] == doctest::Approx(y[2]).epsilon(1e-4));
}

// By tests/golden/golden_datasets.py, which follows the definition alone.
TEST_CASE("synthetic values follow the definition, which no version may change") {
  const auto made = [](const char* classes) {
    return Options::Given{{"samples", "6"}, {"shape", "[2]"}, {"seed", "7"}, {"classes", classes}};
  };
  const Dataset t("synthetic", made("0")), c("synthetic", made("3"));
  CHECK(t.read<float>(0, {0, 1}) == std::vector<float>{-0.6737059354782104f, -1.5095539093017578f,
                                                       0.9255117177963257f, 0.18959976732730865f});
  CHECK(t.read<float>(1, {0, 1}) == std::vector<float>{-0.7287758588790894f, 0.13913100957870483f});
  CHECK(c.read<int32_t>(1, range(6)) == std::vector<int32_t>{0, 2, 0, 2, 2, 2});
}

TEST_CASE("synthetic refuses sizes beyond reason") {
  CHECK(contains(open_error("synthetic", {{"samples", "9223372036854775807"}}, PLAIT_ERR_CONFIG),
                 "more than 1 TiB"));
  CHECK(contains(open_error("synthetic", {{"shape", "[4294967296, 4294967296]"}}, PLAIT_ERR_CONFIG),
                 "more than 1 TiB"));
  // 2^38 floats, as features of all samples and as weights of all classes.
  CHECK(contains(
      open_error("synthetic", {{"samples", "524288"}, {"shape", "[524288]"}}, PLAIT_ERR_CONFIG),
      "more than 1 TiB"));
  CHECK(contains(
      open_error("synthetic", {{"samples", "2"}, {"shape", "[524288]"}, {"classes", "524288"}},
                 PLAIT_ERR_CONFIG),
      "more than 1 TiB"));
  const std::string axes = "[1, 1, 1, 1, 1, 1, 1, 1]";
  CHECK(contains(open_error("synthetic", {{"shape", axes}}, PLAIT_ERR_CONFIG), "more than 7 axes"));
}
