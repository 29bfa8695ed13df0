// Which rank computes longer than the others of its stage, and in which op.
#include "engine/session/stragglers.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/session/slow_ops.hpp"
#include "tests/unit/session/sessions.hpp"
#include "tests/unit/session/slow_plugin.hpp"

namespace {

using namespace plait::test;
using plait::FileSystem;
using plait::Log;
using plait::session::BusyTimes;
using plait::session::Stragglers;

struct Steps {
  explicit Steps(const std::vector<std::string>& keys, int ranks)
      : plan(make_plan(keys, FileSystem::posix(), 0, ranks, log)), results(plan->results) {}
  void add(Stragglers& to, const std::vector<double>& seconds, int n) {
    for (size_t r = 0; r < seconds.size(); ++r)
      results.set(plan->results.at(plait::plan::Plan::kStepSums + static_cast<int64_t>(r)),
                  seconds[r]);
    for (int i = 0; i < n; ++i) to.add(results);
  }
  Log log{[](uint32_t, std::string_view) {}};
  std::unique_ptr<const plait::plan::Plan> plan;
  plait::session::HostBuffer results;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a rank is slow at one and a half times the median") {
  Steps steps({"topology.data=4"}, 4);
  Stragglers found(*steps.plan);
  steps.add(found, {0.1, 0.1, 0.14, 0.1}, 100);
  CHECK_FALSE(found.slow());
  steps.add(found, {0.1, 0.1, 0.16, 0.1}, 100);
  CHECK(found.slow());
}

TEST_CASE("a slow rank is found once it has been slow for some time") {
  Steps steps({"topology.data=4"}, 4);
  Stragglers found(*steps.plan);
  CHECK_FALSE(found.times());
  steps.add(found, {0.1, 0.1, 0.25, 0.1}, 10);
  REQUIRE(found.times());
  CHECK(found.times()->slowest == 2);
  CHECK(found.times()->median == 0);
  CHECK(found.times()->slowest_ms == doctest::Approx(250));
  CHECK(found.times()->median_ms == doctest::Approx(100));
  CHECK_FALSE(found.slow());  // too few steps
  steps.add(found, {0.1, 0.1, 0.25, 0.1}, 15);
  const std::optional<BusyTimes> slow = found.slow();
  REQUIRE(slow);
  CHECK(slow->slowest == 2);
  CHECK(slow->slowest_ms == doctest::Approx(250));
  steps.add(found, {0.1, 0.1, 0.25, 0.1}, 100);
  CHECK_FALSE(found.slow());  // told before
  steps.add(found, {0.1, 0.1, 0.25, 0.1}, 3000);
  CHECK(found.slow());
  found.begin();
  steps.add(found, {0.1, 0.1, 0.1, 0.1}, 1);
  CHECK(found.times()->slowest_ms == doctest::Approx(100));
  found.begin();
  steps.add(found, {0.1, 0, 0.1, 0.1}, 1);  // a rank that does not tell
  CHECK_FALSE(found.times());
}

// Times of ranks that do the same work on a machine that does other things, too: up to a fifth more
// at any time; in the clean steps now and then one that takes several times as long.
TEST_CASE("no rank of 200 clean steps is slow, and one of half the speed is found within 20") {
  constexpr int kSeeds = 100, kRanks = 4, kClean = 200, kPrompt = 20;
  constexpr double kStep = 0.3, kMore = 0.2, kRare = 0.01, kPause = 5;
  Steps steps({"topology.data=4"}, kRanks);
  for (int seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    std::uniform_real_distribution<double> part;
    const auto step = [&](Stragglers& to, double slow, double rare) {
      std::vector<double> seconds;
      for (int r = 0; r < kRanks; ++r)
        seconds.push_back(kStep * (1 + kMore * part(random)) * (part(random) < rare ? kPause : 1) *
                          (r == 1 ? slow : 1));
      steps.add(to, seconds, 1);
      return to.slow();
    };
    Stragglers clean(*steps.plan), slowed(*steps.plan);
    for (int i = 0; i < kClean; ++i) CHECK_FALSE(step(clean, 1, kRare));
    std::optional<BusyTimes> found;
    for (int i = 0; i < kPrompt && !found; ++i) found = step(slowed, 2, 0);
    REQUIRE(found);
    CHECK(found->slowest == 1);
  }
}

TEST_CASE("the warning names the op that takes longer, if one does") {
  const plait::topology::Grid grid(1, 4, 1);
  const BusyTimes slow{100, 250, 2, 0};
  using plait::session::OpSeconds;
  const OpSeconds other = {{"a", 0.2}, {"b", 0.1}}, one = {{"a", 0.7}, {"b", 0.15}},
                  all = {{"a", 0.5}, {"b", 0.42}, {"c", 0.1}};
  const auto text = [&](const auto& own, const auto& with) {
    return slow_rank_text(grid, slow, own, with, 4);
  };
  const std::string begin =
      "[session] rank 2 (pipeline 0, data 2, tensor 0) is slow: it computes for 250 ms of a step, "
      "the median of its stage is 100 ms, and the others wait";
  const std::string end = "; see whether its machine is busy or throttled, and `plait profile`";
  CHECK(text(one, other) ==
        begin + ". Most of it is in a: 175 ms of a step, 50 ms on rank 0" + end);
  CHECK(text(all, other) ==
        begin + ". Its kernels are slower, most of all b: 105 ms of a step, 25 ms on rank 0" + end);
  CHECK(text(other, other) ==
        begin + ". Its kernels take as long as those of rank 0, so the time passes between them" +
            end);
  const OpSeconds little = {{"a", 0.25}, {"b", 0.1}};
  CHECK(text(little, other) == text(other, other));
  CHECK(text(one, OpSeconds{}) == begin + end);
}

TEST_CASE("ranks measure what makes one of them slow") {
  struct Loaded {
    Loaded() { extra_plugin = slow_plugin(); }
    ~Loaded() { extra_plugin = nullptr; }
  } const loaded;
  const plait::test::Folder folder;
  const auto outcomes = run_all(
      {"topology.data=2", "run.steps=27", "checkpoint.at_end=false", "run.device=reference",
       "model.layers=[{type = \"linear\", out = 4}, {type = \"test.crawl\", name = \"mud\"}]"},
      2, folder / "run", [](int) -> FileSystem& { return FileSystem::posix(); });
  for (const Outcome& o : outcomes) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
  std::ifstream file(folder / "run/log/rank-0.log");
  const std::string log{std::istreambuf_iterator<char>(file), {}};
  INFO(log);
  CHECK(has(log, "is slow: it computes for"));
  const std::string most = ". Most of it is in test.crawl of model.mud (forward): ";
  REQUIRE(has(log, most));
  // It sleeps for 250 ms, and wakes up a little later; those of two steps would be 500.
  const double ms = std::stod(log.substr(log.find(most) + most.size()));
  CHECK(ms >= 250);
  CHECK(ms < 500);
  CHECK(log.find("is slow") == log.rfind("is slow"));
}

TEST_CASE("a stop while the slow rank is measured does not lose the warning") {
  struct Loaded {
    Loaded() { extra_plugin = slow_plugin(); }
    ~Loaded() { extra_plugin = nullptr; }
  } const loaded;
  const plait::test::Folder folder;
  const auto outcomes = run_all(
      {"topology.data=2", "run.steps=40", "checkpoint.at_end=false", "run.device=reference",
       "model.layers=[{type = \"linear\", out = 4}, {type = \"test.crawl\", name = \"mud\"}]"},
      2, folder / "run", [](int) -> FileSystem& { return FileSystem::posix(); },
      [](int rank, plait::session::Settings& s) {
        if (rank == 0) s.on_step = [](const plait::session::StepResult& r) { return r.step == 21; };
      });
  for (const Outcome& o : outcomes) REQUIRE_MESSAGE(o.code == PLAIT_ERR_CANCELLED, o.error);
  std::ifstream file(folder / "run/log/rank-0.log");
  const std::string log{std::istreambuf_iterator<char>(file), {}};
  INFO(log);
  CHECK(has(log, "is slow: it computes for"));
  CHECK(log.find("is slow") == log.rfind("is slow"));
  CHECK_FALSE(has(log, "test.crawl of model.mud"));  // not all of the steps were measured
}

TEST_CASE("stages of a pipeline may differ") {
  Steps steps({"topology.pipeline=2", "topology.data=2", "batch.micro=2"}, 4);
  Stragglers found(*steps.plan);
  steps.add(found, {0.1, 0.1, 0.3, 0.3}, 30);
  CHECK_FALSE(found.slow());
  steps.add(found, {0.1, 0.1, 0.3, 0.5}, 30);
  CHECK(found.times()->slowest == 3);
  const std::optional<BusyTimes> slow = found.slow();
  REQUIRE(slow);
  CHECK(slow->slowest == 3);
  CHECK(slow->median == 2);
}

TEST_CASE("a line of metrics has the compute time of the ranks; one rank has none") {
  for (const int ranks : {1, 2}) {
    const plait::test::Folder folder;
    const auto outcomes =
        run_all({"topology.data=" + std::to_string(ranks), "run.log_every=4"}, ranks,
                folder / "run", [](int) -> FileSystem& { return FileSystem::posix(); });
    for (const Outcome& o : outcomes) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
    std::ifstream file(folder / "run/metrics.ndjson");
    int lines = 0;
    for (std::string text; std::getline(file, text);) {
      const auto line = nlohmann::json::parse(text);
      if (line.contains("event")) continue;
      ++lines;
      CHECK(line.contains("busy_ms") == (ranks > 1));
      if (ranks == 1) continue;
      CHECK(line["busy_ms"].get<double>() > 0);
      CHECK(line["slowest_busy_ms"].get<double>() >= line["busy_ms"].get<double>());
      const int slowest = line["slowest_rank"];
      CHECK((slowest == 0 || slowest == 1));
    }
    CHECK(lines == 3);
  }
}
