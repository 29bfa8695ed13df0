// The arithmetic of drawing tokens: how near weights are to probabilities, and sums at the ends of
// 64 bits.
#include "kit/draw_weight.hpp"

#include <doctest/doctest.h>

#include <cfloat>
#include <cmath>
#include <limits>

#include "kit/draw_token.hpp"

using namespace plait::kit;

TEST_CASE("a weight is 2^40 times the probability, and never grows with the distance") {
  CHECK(weight_of(0) == uint64_t{1} << 40);
  CHECK(weight_of(1u << 25) == uint64_t{1} << 39);
  CHECK(weight_of(40u << 25) == 1);
  CHECK(weight_of(kFarthest) == 0);
  uint64_t last = weight_of(0);
  for (uint32_t d = 0; d < kFarthest; d += 10007) {
    const double exact = std::exp2(40 - d * 0x1p-25);
    const uint64_t w = weight_of(d);
    REQUIRE(std::abs(static_cast<double>(w) - exact) <= 1 + 3e-9 * exact);
    REQUIRE(w <= last);
    last = w;
  }
}

TEST_CASE("distances: of logits that are equal, far, impossible, at extreme temperatures") {
  const double scale = distance_scale(1);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  CHECK(distance_of(0, scale) == 0);
  CHECK(distance_of(-0.0f, scale) == 0);
  CHECK(distance_of(static_cast<float>(-std::log(2.0)), scale) == doctest::Approx(1u << 25));
  CHECK(distance_of(-100, scale) == kFarthest);
  CHECK(distance_of(-kInf, scale) == kFarthest);
  CHECK(distance_of(-1, distance_scale(double{FLT_MIN})) == kFarthest);
  CHECK(distance_of(0, distance_scale(double{FLT_MIN})) == 0);
  CHECK(distance_of(-1, distance_scale(double{FLT_MAX})) == 0);
  CHECK(distance_of(-kInf, distance_scale(std::numeric_limits<double>::infinity())) == kFarthest);
}

TEST_CASE("ranks: greater numbers first, 0 and -0 alike") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float falling[] = {kInf, FLT_MAX, 2, 1, FLT_MIN, 1e-45f, 0, -1e-45f, -1, -FLT_MAX, -kInf};
  const auto rank = [](float v) { return rank_of_bits(std::bit_cast<uint32_t>(v)); };
  for (size_t i = 1; i < std::size(falling); ++i) CHECK(rank(falling[i - 1]) < rank(falling[i]));
  CHECK(rank(-0.0f) == rank(0));
}

TEST_CASE("products of 64 bits") {
  const uint64_t all = ~uint64_t{0};
  CHECK(multiply_high(all, all) == all - 1);
  CHECK(multiply_high(all, 1) == 0);
  CHECK(multiply_high(uint64_t{1} << 63, 6) == 3);
  CHECK(multiply_high(0x123456789abcdef0, 0xfedcba9876543210) == 0x121fa00ad77d7422);
  DrawRow row;
  row.top_p = kAllOfSum;
  CHECK(row.part_of(all) == all);
  row.top_p = kAllOfSum / 2;
  CHECK(row.part_of(all) == all / 2);
  row.top_p = 0;
  CHECK(row.part_of(all) == 1);
}

TEST_CASE("settings become the row that a device reads") {
  DrawSettings s;
  s.temperature = 1e-300, s.top_p = 0.25, s.min_p = 0.5;
  s.top_k = int64_t{1} << 40, s.ids = 7;
  s.seed = 0x1122334455667788, s.sequence = uint64_t{1} << 63, s.index = 9;
  float settings[kDrawSettings];
  int32_t numbers[kDrawNumbers];
  write_row(s, settings, numbers);
  const DrawRow row = draw_row(settings, numbers, 5);
  CHECK_FALSE(row.greedy);
  CHECK(row.ids == 5);
  CHECK(row.top_k == 0);  // all
  CHECK(row.top_p == kAllOfSum / 4);
  CHECK(row.least == uint64_t{1} << 39);
  CHECK_FALSE(row.log_probability);
  const PhiloxBlock block = philox(9, uint64_t{1} << 63, 0x1122334455667788);
  CHECK(random_bits(numbers) == (uint64_t{block[0]} << 32 | block[1]));
  s.temperature = 0;
  write_row(s, settings, numbers);
  CHECK(draw_row(settings, numbers, 5).greedy);
  write_row({}, settings, numbers);
  CHECK(draw_row(settings, numbers, 5).ids == 0);
}

// Chi-square with 99 degrees of freedom: above 149 once in a thousand.
TEST_CASE("tokens are drawn as often as their probabilities say") {
  constexpr int kIds = 100, kDraws = 100000;
  float logits[kIds];
  double total = 0;
  for (int i = 0; i < kIds; ++i) {
    logits[i] = static_cast<float>(2 * std::sin(1.7 * i));
    total += std::exp(double{logits[i]});
  }
  uint64_t scratch[TokenDraw<PlainLogits>::scratch_words(kIds)];
  int found[kIds] = {};
  for (int n = 0; n < kDraws; ++n) {
    DrawSettings s;
    s.ids = kIds, s.seed = 11, s.sequence = static_cast<uint64_t>(n % 10), s.index = n / 10;
    float settings[kDrawSettings];
    int32_t numbers[kDrawNumbers];
    write_row(s, settings, numbers);
    ++found[TokenDraw<PlainLogits>(logits, scratch).draw(settings, numbers).id];
  }
  double chi_square = 0;
  for (int i = 0; i < kIds; ++i) {
    const double expected = kDraws * std::exp(double{logits[i]}) / total;
    chi_square += (found[i] - expected) * (found[i] - expected) / expected;
  }
  CHECK(chi_square < 149);
  CHECK(chi_square > 60);
}
