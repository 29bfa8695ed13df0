// The topology is invisible in the result, strictly: in f64 rounding explains nothing. Models,
// optimizers and layouts are drawn from a seed. PLAIT_TEST_SEED=n draws that one alone;
// PLAIT_TEST_ALL=1 draws more, beginning anywhere.
#include <cmath>
#include <cstdlib>
#include <random>

#include "tests/parallel/layouts.hpp"
#include "tests/parallel/random_experiment.hpp"

namespace {

using namespace parallel;

constexpr int kSteps = 10;
// Of the first step, and of all of them where training does not amplify what was rounded.
constexpr double kFirst = 1e-13, kAll = 1e-9;

double apart(double a, double b) { return a == b ? 0 : std::abs(a - b) / std::abs(b); }

struct Tally {
  int drawn = 0, falling = 0;
  int several = 0, teachers = 0, budgets = 0;  // several models, frozen ones, bytes to recompute by
  double first = 0, all = 0;
};

void check(const std::vector<Outcome>& got, const Outcome& expected, Tally& tally) {
  for (const Outcome& o : got) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
  for (const Outcome& o : got) check_equal(o, got[0]);
  CHECK(got[0].initial == expected.initial);
  const double first = std::max(apart(got[0].losses[0], expected.losses[0]),
                                apart(got[0].norms[0], expected.norms[0]));
  CHECK(first <= kFirst);
  tally.first = std::max(tally.first, first);
  if (!(expected.losses.back() < expected.losses.front())) return;
  ++tally.falling;
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    CAPTURE(i);
    const double one = apart(got[0].losses[i], expected.losses[i]);
    CHECK(one <= kAll);
    tally.all = std::max(tally.all, one);
  }
}

// Adds a byte budget for recomputation: the least that is accepted, about, times the factor.
void add_budget(JobSpec& job_spec, const RandomExperiment& e) {
  const std::vector<std::string> layout = job_spec.overrides;
  const auto set = [&](double mib) {
    job_spec.overrides = layout;
    job_spec.overrides.emplace_back("topology.recompute=budget");
    job_spec.overrides.push_back("topology.recompute_budget=" + std::to_string(mib));
  };
  for (double mib = 1.0 / 1024;; mib *= 1.5) {
    REQUIRE(mib < 64);
    set(mib);
    try {
      plan_of(job_spec, e.ranks);
    } catch (const plait::HostError& refused) {
      REQUIRE_MESSAGE(std::string(refused.what()).find("recompute_budget") != std::string::npos,
                      refused.what());
      continue;
    }
    return set(mib * e.budget_factor);
  }
}

void draw(uint32_t seed, Tally& tally) {
  const Folder folder;
  const RandomExperiment e = random_experiment(seed, folder);
  INFO("PLAIT_TEST_SEED="
       << seed << " parallel --test-suite=random_1 repeats this one alone; its data is gone\n"
       << e.text());
  JobSpec job_spec{e.toml, {}, {}, {}};
  const auto expected = run(job_spec, 1, train(kSteps));
  REQUIRE_MESSAGE(expected[0].code == PLAIT_OK, expected[0].error);
  job_spec.overrides = e.layout;
  if (e.budget_factor > 0) add_budget(job_spec, e);
  check(run(job_spec, e.ranks, train(kSteps)), expected[0], tally);
  ++tally.drawn;
  const auto has = [&](const char* text) { return e.toml.find(text) != std::string::npos; };
  tally.several += has("[models.second.optimizer]") || has("[models.learner.optimizer]");
  tally.teachers += has("[models.teacher]");
  tally.budgets += e.budget_factor > 0;
}

// A quarter of what is drawn.
void draw_share(uint32_t share) {
  constexpr uint32_t kDraws = 25, kMore = 250;
  Tally tally;
  if (const char* given = std::getenv("PLAIT_TEST_SEED")) {
    if (share == 0) draw(static_cast<uint32_t>(std::strtoul(given, nullptr, 10)), tally);
    return;
  }
  const uint32_t begin = try_all() ? std::random_device{}() : share * kDraws;
  const uint32_t n = try_all() ? kMore : kDraws;
  for (uint32_t i = 0; i < n; ++i) draw(begin + i, tally);
  MESSAGE(tally.drawn << " layouts from seed " << begin << ", of " << tally.falling
                      << " one rank's loss falls; worst relative difference in the first step "
                      << tally.first << ", in " << kSteps << " steps " << tally.all << "; "
                      << tally.several << " train several models, " << tally.teachers
                      << " have a teacher, " << tally.budgets << " a byte budget");
  CHECK(tally.several > 0);
  CHECK(tally.teachers > 0);
  CHECK(tally.budgets > 0);
  CHECK(tally.falling * 2 >= tally.drawn);
}

const char kName[] = "random models on random layouts: in f64 as on one rank";
TEST_SUITE("random_1") {
  TEST_CASE(kName) { draw_share(0); }
}
TEST_SUITE("random_2") {
  TEST_CASE(kName) { draw_share(1); }
}
TEST_SUITE("random_3") {
  TEST_CASE(kName) { draw_share(2); }
}
TEST_SUITE("random_4") {
  TEST_CASE(kName) { draw_share(3); }
}

}  // namespace
