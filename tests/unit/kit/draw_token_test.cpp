// What top_k, top_p and min_p keep of a row, and which id is drawn, against a plain sort.
#include "kit/draw_token.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

using namespace plait::kit;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Candidate {
  int32_t id;
  float logit;
  uint32_t distance;
  uint64_t weight;
  bool operator==(const Candidate& o) const { return id == o.id && weight == o.weight; }
};
using Candidates = std::vector<Candidate>;

// What settings keep, in the order of the ids, by sorting. The arithmetic is that of the header.
Candidates sorted_out(const std::vector<float>& logits, const DrawSettings& s) {
  Candidates all;
  const auto ids = std::min(static_cast<size_t>(s.ids), logits.size());
  const float greatest = *std::max_element(logits.begin(), logits.begin() + s.ids);
  for (size_t i = 0; i < ids; ++i) {
    const uint32_t distance =
        distance_of(logits[i] - greatest, distance_scale(static_cast<float>(s.temperature)));
    all.push_back({static_cast<int32_t>(i), logits[i], distance, weight_of(distance)});
  }
  // Those that are equal to number k stay, too.
  const auto k = static_cast<size_t>(s.top_k);
  if (k > 0 && k < all.size()) {
    std::vector<float> falling(logits.begin(), logits.begin() + s.ids);
    std::sort(falling.begin(), falling.end(), std::greater<>());
    std::erase_if(all, [&](const Candidate& c) { return c.logit < falling[k - 1]; });
  }
  std::erase_if(all, [](const Candidate& c) { return c.weight == 0; });
  // The likeliest first, of equals that of the lower id, while those before sum up to less than the
  // part.
  if (s.top_p < 1) {
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
      return a.distance < b.distance;
    });
    uint64_t total = 0, before = 0;
    for (const Candidate& c : all) total += c.weight;
    DrawRow row;
    row.top_p = static_cast<uint64_t>(double{static_cast<float>(s.top_p)} * 0x1p32);
    size_t n = 0;
    for (; n < all.size() && before < row.part_of(total); ++n) before += all[n].weight;
    all.resize(n);
  }
  const auto least = static_cast<uint64_t>(double{static_cast<float>(s.min_p)} * 0x1p40);
  std::erase_if(all, [&](const Candidate& c) { return c.weight < least; });
  std::sort(all.begin(), all.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  return all;
}

// A row as a device sees it.
struct Row {
  const std::vector<float>& logits;
  float settings[kDrawSettings];
  int32_t numbers[kDrawNumbers];
  std::vector<uint64_t> scratch;

  Row(const std::vector<float>& x, const DrawSettings& s)
      : logits(x),
        scratch(static_cast<size_t>(
            TokenDraw<PlainLogits>::scratch_words(static_cast<int64_t>(x.size())))) {
    write_row(s, settings, numbers);
  }
  Drawn draw() { return TokenDraw<PlainLogits>(logits, scratch.data()).draw(settings, numbers); }
  Candidates kept() {
    Candidates found;
    TokenDraw<PlainLogits>(logits, scratch.data())
        .each_kept(settings, numbers, [&](int32_t id, uint64_t weight) {
          found.push_back({id, 0, 0, weight});
        });
    return found;
  }
};

// The id at the place of the row's random bits, of weights that lie one behind the other.
int32_t at_random(const Candidates& kept, const Row& row) {
  uint64_t total = 0;
  for (const Candidate& c : kept) total += c.weight;
  uint64_t at = multiply_high(random_bits(row.numbers), total);
  size_t i = 0;
  while (at >= kept[i].weight) at -= kept[i++].weight;
  return kept[i].id;
}

std::vector<int32_t> ids_of(const Candidates& kept) {
  std::vector<int32_t> ids;
  for (const Candidate& c : kept) ids.push_back(c.id);
  return ids;
}

void compare(const std::vector<float>& logits, DrawSettings s) {
  const Candidates wanted = sorted_out(logits, s);
  REQUIRE_FALSE(wanted.empty());
  CHECK(ids_of(Row(logits, s).kept()) == ids_of(wanted));
  CHECK(Row(logits, s).kept() == wanted);
  for (s.index = 0; s.index < 4; ++s.index) {
    Row row(logits, s);
    const Drawn drawn = row.draw();
    CHECK(drawn.id == at_random(wanted, row));
    CHECK(std::isnan(drawn.log_probability));
  }
}

// Continuous logits, a few values with many equal ones, and logits of which most are impossible.
std::vector<std::vector<float>> rows(size_t n) {
  std::mt19937 random(3);
  std::vector<std::vector<float>> all(3, std::vector<float>(n));
  std::normal_distribution<float> normal(0, 3);
  for (size_t i = 0; i < n; ++i) {
    all[0][i] = normal(random);
    all[1][i] = static_cast<float>(random() % 5) * 0.5f - 1;
    all[2][i] = random() % 10 == 0 ? normal(random) : -kInf;
  }
  all[1][n / 2] = -0.0f;  // equal to 0
  return all;
}

}  // namespace

TEST_CASE("what is kept and drawn of a row is what a sort keeps") {
  for (const size_t n : {1000u, 1024u, 129u, 7u})  // with and without a part of a block
    for (const std::vector<float>& logits : rows(n)) {
      const auto v = static_cast<int64_t>(n);
      for (const int64_t ids : {v, v - v / 3})
        for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{7}, v / 2, v - 1, v, v + 1})
          for (const double p : {1.0, 0.999, 0.9, 0.5, 0.1, 1e-9})
            for (const double least : {0.0, 0.02, 0.5, 1.0}) {
              if (*std::max_element(logits.begin(), logits.begin() + ids) == -kInf) continue;
              CAPTURE(n);
              CAPTURE(ids);
              CAPTURE(k);
              CAPTURE(p);
              CAPTURE(least);
              DrawSettings s;
              s.ids = ids, s.top_k = k, s.top_p = p, s.min_p = least, s.seed = 5;
              s.temperature = k == 7 ? 0.6 : 1;
              compare(logits, s);
            }
    }
}

TEST_CASE("temperatures so high that greater logits are as likely, and so low that one is left") {
  for (const std::vector<float>& logits : rows(1000))
    for (const double temperature : {1e-30, 0.05, 30.0, 1e9, 1e30})
      for (const double p : {1.0, 0.5}) {
        CAPTURE(temperature);
        DrawSettings s;
        s.ids = 1000, s.top_p = p, s.temperature = temperature;
        compare(logits, s);
        s.top_k = 20;
        compare(logits, s);
      }
}

// Probabilities of 0.4, 0.1, 0.3, 0.1 and 0.1.
TEST_CASE("what the settings mean, by hand") {
  std::vector<float> logits;
  for (const double p : {0.4, 0.1, 0.3, 0.1, 0.1})
    logits.push_back(static_cast<float>(std::log(p)));
  const auto kept = [&](const DrawSettings& s) { return ids_of(Row(logits, s).kept()); };
  using Ids = std::vector<int32_t>;
  DrawSettings s;
  s.ids = 5;
  CHECK(kept(s) == Ids{0, 1, 2, 3, 4});
  s.top_k = 2;
  CHECK(kept(s) == Ids{0, 2});
  s.top_k = 3;
  CHECK(kept(s) == Ids{0, 1, 2, 3, 4});  // equal to the third
  s.top_k = 0, s.top_p = 0.39;
  CHECK(kept(s) == Ids{0});
  s.top_p = 0.41;
  CHECK(kept(s) == Ids{0, 2});
  s.top_p = 0.75;
  CHECK(kept(s) == Ids{0, 1, 2});  // of equals the lower ids, as many as are needed
  s.top_p = 0.85;
  CHECK(kept(s) == Ids{0, 1, 2, 3});
  s.top_p = 0;
  CHECK(kept(s) == Ids{0});
  // top_p is a part of what top_k leaves, 4 / 7 and 3 / 7.
  s.top_k = 2, s.top_p = 0.5;
  CHECK(kept(s) == Ids{0});
  s.top_p = 0.6;
  CHECK(kept(s) == Ids{0, 2});
  // min_p is a part of the greatest probability: 0.3 is 0.75 of it, 0.1 is 0.25.
  s.top_k = 0, s.top_p = 1, s.min_p = 0.26;
  CHECK(kept(s) == Ids{0, 2});
  s.min_p = 0.24;
  CHECK(kept(s) == Ids{0, 1, 2, 3, 4});
  s.min_p = 0.76;
  CHECK(kept(s) == Ids{0});
  // Half the temperature squares the ratios: 0.3 is 0.5625 of 0.4.
  s.temperature = 0.5, s.min_p = 0.57;
  CHECK(kept(s) == Ids{0});
  s.min_p = 0.56;
  CHECK(kept(s) == Ids{0, 2});
}

TEST_CASE("the log-probability is that of the model, of all logits and without a temperature") {
  std::vector<float> logits = rows(1000)[0];
  logits[700] = 12;  // greater than all that may be drawn
  double sum = 0;
  for (const float x : logits) sum += std::exp(double{x});
  DrawSettings s;
  s.ids = 300, s.temperature = 0.5, s.top_k = 9, s.log_probability = true;
  for (s.index = 0; s.index < 20; ++s.index) {
    const Drawn drawn = Row(logits, s).draw();
    REQUIRE(drawn.id >= 0);
    REQUIRE(drawn.id < 300);
    const double wanted = logits[static_cast<size_t>(drawn.id)] - std::log(sum);
    CHECK(drawn.log_probability == doctest::Approx(wanted).epsilon(1e-6));
  }
  s.temperature = 0;
  const Drawn greedy = Row(logits, s).draw();
  CHECK(greedy.id == std::max_element(logits.begin(), logits.begin() + 300) - logits.begin());
}

TEST_CASE("rows that draw nothing, or cannot") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto drawn = [](const std::vector<float>& logits, int64_t ids) {
    DrawSettings s;
    s.ids = ids;
    const Drawn d = Row(logits, s).draw();
    CHECK(std::isnan(d.log_probability));
    return d.id;
  };
  CHECK(drawn({1, 2}, 0) == kNotDrawn);
  CHECK(drawn({1, nan}, 2) == kLogitNan);
  CHECK(drawn({1, nan}, 1) == 0);
  CHECK(drawn({nan, kInf}, 2) == kLogitNan);
  CHECK(drawn({1, kInf}, 2) == kLogitInfinite);
  CHECK(drawn({-kInf, -kInf, 3}, 2) == kLogitsImpossible);
  CHECK(drawn({-kInf, -kInf, 3}, 3) == 2);
  // A block in which nothing can be drawn, before and behind one in which something can.
  std::vector<float> far(300, -kInf);
  far[140] = -1e30f;
  CHECK(drawn(far, 300) == 140);
  far[299] = nan;
  CHECK(drawn(far, 300) == kLogitNan);
}
