#include "engine/data/sample_order.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

using plait::data::position_to_sample;
using plait::data::SampleOrder;

bool is_bijection(const SampleOrder& order, int64_t n) {
  std::vector<bool> seen(static_cast<size_t>(n), false);
  for (int64_t p = 0; p < n; ++p) {
    const int64_t s = order(p);
    if (s < 0 || s >= n || seen[static_cast<size_t>(s)]) return false;
    seen[static_cast<size_t>(s)] = true;
  }
  return true;
}

}  // namespace

TEST_CASE("batches_per_epoch rounds up") {
  CHECK(plait::data::batches_per_epoch(0, 4) == 0);
  CHECK(plait::data::batches_per_epoch(1, 4) == 1);
  CHECK(plait::data::batches_per_epoch(8, 4) == 2);
  CHECK(plait::data::batches_per_epoch(9, 4) == 3);
  CHECK(plait::data::batches_per_epoch(INT64_MAX, 2) == INT64_MAX / 2 + 1);
}

TEST_CASE("order is a bijection for every n") {
  for (int64_t n = 1; n <= 600; ++n)
    for (int64_t epoch = 0; epoch < 3; ++epoch)
      REQUIRE(is_bijection(SampleOrder(42, epoch, n, true), n));
  for (const int64_t n : {1023, 1024, 1025, 4095, 4097, 60000, 65536, 65537, 1000003})
    REQUIRE(is_bijection(SampleOrder(7, 1, n, true), n));
}

TEST_CASE("order without shuffle is the identity") {
  const SampleOrder order(42, 3, 100, false);
  for (int64_t p = 0; p < 100; ++p) CHECK(order(p) == p);
}

TEST_CASE("order stays the same for ever") {
  // Checkpoints hold positions: if this value changes, no older run can be resumed.
  const std::vector<int64_t> first = {23274, 35289, 4805, 33323, 23059, 2740, 7815, 20853};
  for (size_t i = 0; i < first.size(); ++i)
    CHECK(position_to_sample(42, 0, static_cast<int64_t>(i), 60000, true) == first[i]);
  const std::vector<int64_t> next = {8, 3, 7, 9, 6, 1, 0, 4, 2, 5};
  for (size_t i = 0; i < next.size(); ++i)
    CHECK(position_to_sample(42, 1, static_cast<int64_t>(i), 10, true) == next[i]);
}

TEST_CASE("order works near the largest n") {
  const int64_t n = INT64_MAX;
  const SampleOrder order(1, 0, n, true);
  for (int64_t p = n - 1000; p < n; ++p) {
    CHECK(order(p) >= 0);
    CHECK(order(p) < n);
  }
}

TEST_CASE("order depends on seed and epoch") {
  const int64_t n = 1000;
  const SampleOrder a(1, 0, n, true), b(1, 1, n, true), c(2, 0, n, true), d(1ull << 40, 0, n, true);
  int same_b = 0, same_c = 0, same_d = 0;
  for (int64_t p = 0; p < n; ++p) {
    same_b += a(p) == b(p);
    same_c += a(p) == c(p);
    same_d += a(p) == d(p);
  }
  // Two random permutations are expected to agree at one position; ten has a probability of one in
  // ten million.
  CHECK(same_b < 10);
  CHECK(same_c < 10);
  CHECK(same_d < 10);
}

TEST_CASE("order looks random: where position p goes is uniform over epochs") {
  // Chi-square over n cells with n-1 degrees of freedom: mean n-1, deviation sqrt(2(n-1)).
  for (const int64_t n : {7, 10, 64, 100}) {
    for (const int64_t p : {int64_t{0}, n / 2, n - 1}) {
      const int64_t epochs = 200 * n;
      std::vector<double> count(static_cast<size_t>(n), 0);
      for (int64_t e = 0; e < epochs; ++e)
        count[static_cast<size_t>(SampleOrder(99, e, n, true)(p))] += 1;
      double chi = 0;
      for (const double c : count) chi += (c - 200) * (c - 200) / 200;
      const double degrees = static_cast<double>(n - 1);
      CHECK(std::abs(chi - degrees) < 5 * std::sqrt(2 * degrees));
    }
  }
}

TEST_CASE("order looks random: neighbours are not neighbours") {
  const int64_t n = 60000;
  const SampleOrder order(5, 0, n, true);
  // For uniform pairs (s(p), s(p+1)), half are ascents and the mean distance is n/3.
  int64_t ascents = 0, adjacent = 0;
  double distance = 0;
  for (int64_t p = 0; p + 1 < n; ++p) {
    const int64_t step = order(p + 1) - order(p);
    ascents += step > 0;
    adjacent += std::abs(step) == 1;
    distance += static_cast<double>(std::abs(step));
  }
  CHECK(std::abs(static_cast<double>(ascents) - 30000) < 500);
  CHECK(std::abs(distance / 59999 - 20000) < 300);
  CHECK(adjacent < 20);
}
