#include <doctest/doctest.h>

#include <limits>

#include "engine/base/checked.hpp"

using namespace plait;

namespace {
constexpr uint64_t kMaxU = std::numeric_limits<uint64_t>::max();
constexpr int64_t kMaxI = std::numeric_limits<int64_t>::max(),
                  kMinI = std::numeric_limits<int64_t>::min();
}  // namespace

TEST_CASE("checked arithmetic gives the result where it fits") {
  CHECK(checked_add<uint64_t>(2, 3, "x") == 5);
  CHECK(checked_add<uint64_t>(kMaxU - 1, 1, "x") == kMaxU);
  CHECK(checked_sub<uint64_t>(3, 3, "x") == 0);
  CHECK(checked_mul<int64_t>(-4, 5, "x") == -20);
  CHECK(checked_mul<uint64_t>(0, kMaxU, "x") == 0);
  CHECK(checked_cast<uint32_t>(int64_t{7}, "x") == 7u);
  CHECK(checked_round_up(0, 64, "x") == 0);
  CHECK(checked_round_up(1, 64, "x") == 64);
  CHECK(checked_round_up(64, 64, "x") == 64);
}

TEST_CASE("checked arithmetic throws where it does not fit") {
  CHECK_THROWS_AS(checked_add<uint64_t>(kMaxU, 1, "x"), Error);
  CHECK_THROWS_AS(checked_add<int64_t>(kMinI, -1, "x"), Error);
  CHECK_THROWS_AS(checked_sub<uint64_t>(0, 1, "x"), Error);
  CHECK_THROWS_AS(checked_mul<int64_t>(kMinI, -1, "x"), Error);
  CHECK_THROWS_AS(checked_mul<int64_t>(kMaxI, 2, "x"), Error);
  CHECK_THROWS_AS(checked_cast<uint32_t>(int64_t{-1}, "x"), Error);
  CHECK_THROWS_AS(checked_cast<int64_t>(kMaxU, "x"), Error);
  CHECK_THROWS_AS(checked_round_up(kMaxU, 64, "x"), Error);
}

TEST_CASE("the error names the computed value and has the requested code") {
  try {
    checked_mul<uint64_t>(1ull << 40, 1ull << 40, "bytes of 'w'", PLAIT_ERR_DATA);
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.code() == PLAIT_ERR_DATA);
    CHECK(
        e.text() ==
        "[size] bytes of 'w': 1099511627776 * 1099511627776 is out of range; use a smaller value");
  }
}
