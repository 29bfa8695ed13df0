#include "engine/generate/sampler.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/unit/error_of.hpp"

using plait::generate::Sampler;
using plait::generate::Sampling;
using plait::generate::ScoredToken;

namespace {

constexpr int kDraws = 20000;

// Shares of the ids that many draws give.
std::map<int32_t, double> shares(const std::vector<float>& logits, const Sampling& s,
                                 const std::vector<int32_t>& seen = {},
                                 const std::vector<int32_t>& banned = {}) {
  Sampler sampler(static_cast<int64_t>(logits.size()));
  std::map<int32_t, double> found;
  for (int i = 0; i < kDraws; ++i)
    found[sampler.draw(logits, s, seen, banned, {7, i})] += 1.0 / kDraws;
  return found;
}

std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> all;
  for (const double p : probabilities) all.push_back(static_cast<float>(std::log(p) + 3));
  return all;
}

// Within four standard deviations.
void check(const std::map<int32_t, double>& found, const std::map<int32_t, double>& expected) {
  CHECK(found.size() == expected.size());
  for (const auto& one : expected) {
    const int32_t id = one.first;
    const double p = one.second;
    CAPTURE(id);
    REQUIRE(found.contains(id));
    CHECK(std::abs(found.at(id) - p) < 4 * std::sqrt(p * (1 - p) / kDraws) + 1e-12);
  }
}

}  // namespace

TEST_CASE("tokens are drawn with their probabilities") {
  check(shares(logs({0.5, 0.25, 0.125, 0.125}), {}), {{0, 0.5}, {1, 0.25}, {2, 0.125}, {3, 0.125}});
  Sampling cold;
  cold.temperature = 0.5;  // squares them
  check(shares(logs({0.6, 0.3, 0.1}), cold),
        {{0, 0.36 / 0.46}, {1, 0.09 / 0.46}, {2, 0.01 / 0.46}});
}

TEST_CASE("greedy: the lowest id of equals") {
  Sampling s;
  s.temperature = 0;
  check(shares({1, 5, 5, 2}, s), {{1, 1}});
  check(shares({1, 5, 5, 2}, s, {}, {1, 2}), {{3, 1}});  // banned
}

TEST_CASE("top_k keeps what is equal to the last") {
  Sampling s;
  s.top_k = 2;
  check(shares(logs({0.1, 0.4, 0.2, 0.2, 0.1}), s), {{1, 0.5}, {2, 0.25}, {3, 0.25}});
  s.top_k = 1;
  check(shares(logs({0.1, 0.4, 0.2, 0.2, 0.1}), s), {{1, 1}});
  s.top_k = 100;
  CHECK(shares(logs({0.1, 0.4, 0.2, 0.2, 0.1}), s).size() == 5);
}

TEST_CASE("top_p keeps a token while those likelier sum up to less") {
  Sampling s;
  s.top_p = 0.7;
  check(shares(logs({0.1, 0.5, 0.25, 0.15}), s), {{1, 2.0 / 3}, {2, 1.0 / 3}});
  s.top_p = 0.49;
  check(shares(logs({0.1, 0.5, 0.25, 0.15}), s), {{1, 1}});
  s.top_p = 0.8;
  check(shares(logs({0.1, 0.5, 0.25, 0.15}), s), {{1, 5.0 / 9}, {2, 2.5 / 9}, {3, 1.5 / 9}});
  s.top_k = 2;  // first; of what stays 0.5 is two thirds
  s.top_p = 0.6;
  check(shares(logs({0.1, 0.5, 0.25, 0.15}), s), {{1, 1}});
}

TEST_CASE("min_p drops what is less likely than a share of the likeliest") {
  Sampling s;
  s.min_p = 0.45;
  check(shares(logs({0.1, 0.5, 0.25, 0.15}), s), {{1, 2.0 / 3}, {2, 1.0 / 3}});
}

TEST_CASE("the repetition penalty acts on each id once, whatever its sign") {
  Sampling s;
  s.temperature = 0;
  s.repetition_penalty = 2;
  check(shares({3, 2, 1}, s, {0, 0, 0}), {{1, 1}});  // 3 -> 1.5, not 0.375
  check(shares({-1, -3, -1.5}, s, {0}), {{2, 1}});   // -1 -> -2
  check(shares({3, 2, 1.4f}, s, {0, 1}), {{0, 1}});  // 1.5, 1, 1.4
}

// tests/golden/golden_greedy.py
TEST_CASE("all steps: the tokens that stay, and their probabilities, are those of the library") {
  std::ifstream file(PLAIT_SOURCE_FOLDER "/tests/golden/sampling.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  REQUIRE(golden.size() >= 10);
  for (const auto& one : golden) {
    CAPTURE(one["settings"].dump());
    Sampling s;
    s.temperature = one["settings"].value("temperature", s.temperature);
    s.top_k = one["settings"].value("top_k", s.top_k);
    s.top_p = one["settings"].value("top_p", s.top_p);
    s.min_p = one["settings"].value("min_p", s.min_p);
    s.repetition_penalty = one["settings"].value("repetition_penalty", s.repetition_penalty);
    const auto logits = one["logits"].get<std::vector<float>>();
    Sampler sampler(static_cast<int64_t>(logits.size()));
    const auto kept = sampler.candidates(logits, s, one["seen"].get<std::vector<int32_t>>(),
                                         one["banned"].get<std::vector<int32_t>>());
    std::vector<int32_t> ids;
    double total = 0;
    for (const ScoredToken& c : kept) {
      ids.push_back(c.id);
      total += c.score;
    }
    REQUIRE(ids == one["kept"].get<std::vector<int32_t>>());
    for (size_t i = 0; i < kept.size(); ++i)
      CHECK(kept[i].score / total ==
            doctest::Approx(one["probabilities"][i].get<double>()).epsilon(1e-5));
  }
}

TEST_CASE("a draw depends on seed, sequence and place, not on the draws before") {
  const std::vector<float> logits = logs(std::vector<double>(50, 0.02));
  const auto draws = [&](uint64_t seed, uint64_t sequence) {
    Sampler sampler(50);
    Sampling s;
    s.seed = seed;
    std::vector<int32_t> all;
    for (int i = 9; i >= 0; --i) all.push_back(sampler.draw(logits, s, {}, {}, {sequence, i}));
    return std::vector<int32_t>(all.rbegin(), all.rend());
  };
  Sampler sampler(50);
  std::vector<int32_t> forward;
  for (int i = 0; i < 10; ++i) forward.push_back(sampler.draw(logits, {}, {}, {}, {4, i}));
  CHECK(draws(0, 4) == forward);
  CHECK(draws(0, 5) != forward);
  CHECK(draws(1, 4) != forward);
}

TEST_CASE("log-probabilities, and the most likely tokens") {
  const std::vector<float> logits{1, 3, 2, 3};
  const double sum = Sampler::log_sum_exp(logits);
  CHECK(sum == doctest::Approx(std::log(std::exp(1) + 2 * std::exp(3) + std::exp(2))));
  std::vector<ScoredToken> best;
  Sampler::best(logits, 3, best);
  REQUIRE(best.size() == 3);
  CHECK(best[0].id == 1);
  CHECK(best[1].id == 3);
  CHECK(best[2].id == 2);
  Sampler::best(logits, 10, best);
  CHECK(best.size() == 4);
  Sampler::best(logits, 0, best);
  CHECK(best.empty());
}

TEST_CASE("logits that are no numbers are an error") {
  Sampler sampler(2);
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> cases[] = {{1, nan}, {infinity, 1}, {-infinity, -infinity}};
  for (const auto& logits : cases)
    CHECK_THROWS_AS(sampler.draw(logits, {}, {}, {}, {}), plait::Error);
  CHECK(sampler.draw(std::vector<float>{-infinity, 0}, {}, {}, {}, {}) == 1);
}

TEST_CASE("an id that a kernel drew and that is none is the fault of the device's plugin") {
  plait::generate::check_drawn(0, 5);
  plait::generate::check_drawn(4, 5);
  for (const int32_t id : {5, 1000, -1, INT32_MIN})
    CHECK(plait::test::error_of([&] { plait::generate::check_drawn(id, 5); }, PLAIT_ERR_PLUGIN) ==
          "[generate] a kernel of the op draw_tokens gave the id " + std::to_string(id) +
              ", expected 0 to 4; tell the author of the device's plugin");
}
