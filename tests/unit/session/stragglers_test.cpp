// Which rank computes longer than the others of its stage.
#include "engine/session/stragglers.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;
using session::Stragglers;

struct Steps {
  explicit Steps(const std::vector<std::string>& keys, int ranks)
      : plan(make_plan(keys, FileSystem::posix(), 0, ranks, log)), results(plan->results) {}
  void add(Stragglers& to, const std::vector<double>& seconds, int n, double each) {
    for (size_t r = 0; r < seconds.size(); ++r)
      results.set(plan->results.at(plan::Plan::kStepSums + static_cast<int64_t>(r)), seconds[r]);
    for (int i = 0; i < n; ++i) to.add(results, each);
  }
  Log log{[](uint32_t, std::string_view) {}};
  std::unique_ptr<const plan::Plan> plan;
  session::HostBuffer results;
};

}  // namespace

TEST_CASE("a slow rank is named once it has been slow for some time") {
  Steps steps({"topology.data=4"}, 4);
  Stragglers found(*steps.plan);
  CHECK_FALSE(found.times());
  steps.add(found, {0.1, 0.1, 0.25, 0.1}, 10, 0.26);
  REQUIRE(found.times());
  CHECK(found.times()->slowest == 2);
  CHECK(found.times()->slowest_ms == doctest::Approx(250));
  CHECK(found.times()->median_ms == doctest::Approx(100));
  CHECK(found.warning().empty());  // too few steps
  steps.add(found, {0.1, 0.1, 0.25, 0.1}, 10, 0.26);
  const std::string text = found.warning();
  INFO(text);
  CHECK(text.find("rank 2 (pipeline 0, data 2, tensor 0) is slow") != std::string::npos);
  CHECK(text.find("250 ms of a step, the median of its stage is 100 ms") != std::string::npos);
  steps.add(found, {0.1, 0.1, 0.25, 0.1}, 100, 0.26);
  CHECK(found.warning().empty());  // told before
  steps.add(found, {0.1, 0.1, 0.25, 0.1}, 3000, 0.26);
  CHECK_FALSE(found.warning().empty());
  found.begin();
  steps.add(found, {0.1, 0.1, 0.1, 0.1}, 1, 0.1);
  CHECK(found.times()->slowest_ms == doctest::Approx(100));
}

TEST_CASE("stages of a pipeline may differ") {
  Steps steps({"topology.pipeline=2", "topology.data=2", "batch.micro=2"}, 4);
  Stragglers found(*steps.plan);
  steps.add(found, {0.1, 0.1, 0.3, 0.3}, 30, 0.4);
  CHECK(found.warning().empty());
  steps.add(found, {0.1, 0.1, 0.3, 0.5}, 30, 0.4);
  CHECK(found.times()->slowest == 3);
  CHECK(found.warning().find("rank 3") != std::string::npos);
}

TEST_CASE("a line of metrics has the compute time of the ranks; one rank has none") {
  for (const int ranks : {1, 2}) {
    const Folder folder;
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
