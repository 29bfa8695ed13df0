// metrics/rank-N.ndjson: where steps continue, and which steps a line tells of.
#include "engine/session/rank_metrics.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/plan/plan_draft.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;
using nlohmann::json;

const std::vector<std::string> kKeys{"run.rank_metrics=all", "run.log_every=4",
                                     "run.device=reference"};

session::Settings in(const std::string& folder) {
  session::Settings s;
  s.run_dir = folder;
  return s;
}

std::vector<json> lines_of(const std::string& path) {
  std::vector<json> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) lines.push_back(json::parse(text));
  return lines;
}

// The steps of the lines; -N: steps continue behind step N.
std::vector<int64_t> steps_in(const std::string& path) {
  std::vector<int64_t> steps;
  for (const json& line : lines_of(path))
    steps.push_back(line["event"] == "resume" ? -line["from_step"].get<int64_t>()
                                              : line["step"].get<int64_t>());
  return steps;
}

// The steps behind which a run continues.
std::vector<int64_t> resumes_in(const std::string& path) {
  std::vector<int64_t> steps;
  for (const json& line : lines_of(path))
    if (line.contains("from_step")) steps.push_back(line["from_step"]);
  return steps;
}

std::string error_of_run(session::Session& s, uint32_t code) {
  try {
    s.run();
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.text();
  }
  return "no error";
}

}  // namespace

TEST_CASE("metrics of a rank tell behind which step a load continues, as those of the run do") {
  const Folder folder;
  HookedFiles files;
  Rank rank(kKeys, files, in(folder / "run"));
  rank.session->run();
  const std::string saved = rank.session->save(folder / "saved");
  rank.session->load(saved);
  rank.session->load_parameters(saved);
  const std::string own = folder / "run/metrics/rank-0.ndjson";
  CHECK(steps_in(own) == std::vector<int64_t>{4, 8, 12, -12, -12});
  CHECK(resumes_in(folder / "run/metrics.ndjson") == std::vector<int64_t>{12, 12});
}

TEST_CASE("a run that begins anew in its folder says so in the metrics of ranks") {
  const Folder folder;
  HookedFiles files;
  for (int i = 0; i < 2; ++i) {
    std::vector<std::string> keys = kKeys;
    keys.emplace_back("checkpoint.at_end=false");
    const Rank rank(keys, files, in(folder / "run"));
    rank.session->run();
  }
  CHECK(steps_in(folder / "run/metrics/rank-0.ndjson") ==
        std::vector<int64_t>{4, 8, 12, 0, 4, 8, 12});
  CHECK(resumes_in(folder / "run/metrics.ndjson") == std::vector<int64_t>{0});
}

TEST_CASE("a run that stops writes the metrics of its last steps") {
  const Folder folder;
  HookedFiles files;
  session::Settings s = in(folder / "run");
  bool asks = true;
  s.on_step = [&](const session::StepResult& r) { return r.step == 6 && asks; };
  Rank rank(kKeys, files, std::move(s));
  CHECK(error_of_run(*rank.session, PLAIT_ERR_CANCELLED)
            .starts_with("[session] stopped on request after step 6; saved as"));
  const std::string own = folder / "run/metrics/rank-0.ndjson";
  CHECK(steps_in(own) == std::vector<int64_t>{4, 6});
  asks = false;
  rank.session->run();
  CHECK(steps_in(own) == std::vector<int64_t>{4, 6, 8, 12});
}

TEST_CASE("a stop behind stop_after names it") {
  const Folder folder;
  HookedFiles files;
  session::Settings s = in(folder / "run");
  s.stop_after = 7;
  Rank rank(kKeys, files, std::move(s));
  CHECK(error_of_run(*rank.session, PLAIT_ERR_CANCELLED)
            .starts_with("[session] stopped after step 7, as stop_after = 7 asks; saved as"));
  CHECK(steps_in(folder / "run/metrics/rank-0.ndjson") == std::vector<int64_t>{4, 7});
}

// The second step lasts long, as it is launched before the callback of the first; its run fails
// before a line is due.
TEST_CASE("steps of a run that failed are not in the lines of the next") {
  const Folder folder;
  HookedFiles files;
  session::Settings s = in(folder / "run");
  s.on_step = [&](const session::StepResult& r) {
    if (r.step == 1) std::this_thread::sleep_for(std::chrono::seconds(2));
    if (r.step == 2) throw std::runtime_error("of the host");
    return false;
  };
  std::vector<std::string> keys = kKeys;
  keys.back() = "run.device=async";
  Rank rank(keys, files, std::move(s));
  CHECK_THROWS_AS(rank.session->run(), std::runtime_error);
  const Stopwatch watch;
  rank.session->run();
  const double ms = 1e3 * watch.seconds();
  const json line = lines_of(folder / "run/metrics/rank-0.ndjson").at(0);
  CHECK(line["step"] == 4);
  // The mean of two steps of that run, none longer than the run itself, on a busy machine as well;
  // with those before it were 500 ms or more.
  CHECK(line["step_ms"].get<double>() < ms + 1);
}

TEST_CASE("a line has the means of the steps since the last one; a device may not tell all") {
  const Folder folder;
  plan::PlanDraft plan;
  plan.rank = 5;
  plan.at = {1, 2, 3};
  Log log{[](uint32_t, std::string_view text) { FAIL(std::string(text)); }};
  const std::string own = folder / "metrics/rank-5";
  {
    session::RankMetrics metrics(folder.path(), "rank-5", plan, FileSystem::posix(), log);
    metrics.write(1);  // nothing was added
    metrics.add({8, 2, 1, 5});
    metrics.begin();  // of no line
    metrics.add({4, 1, 0.5, 2});
    metrics.add({2, 0.5, 0.25, 1});
    metrics.write(4);
    metrics.add({1, 0.25, 0.125, 0});
    metrics.write(8);
    metrics.write(12);
  }
  const std::vector<json> lines = lines_of(own + ".ndjson");
  REQUIRE(lines.size() == 2);
  for (const json& line : lines) {
    const bool first = line["step"] == 4;
    CHECK(line["event"] == "rank");
    CHECK(line["rank"] == 5);
    CHECK(line["pipeline"] == 1);
    CHECK(line["data"] == 2);
    CHECK(line["tensor"] == 3);
    CHECK(line["step_ms"] == (first ? 3000 : 1000));
    CHECK(line["wait_ms"] == (first ? 750 : 250));
    CHECK(line["data_ms"] == (first ? 375 : 125));
    CHECK(line.contains("busy_ms") == first);
  }
  CHECK(lines[0]["busy_ms"] == 1500);
  CHECK(lines[1]["step"] == 8);
  std::string events;
  for (const auto& file : std::filesystem::directory_iterator(own))
    events += FileSystem::posix().read_all(file.path(), 1 << 20);
  for (const auto& [tag, n] : {std::pair{"rank/step_ms", 2},
                               {"rank/wait_ms", 2},
                               {"rank/data_ms", 2},
                               {"rank/busy_ms", 1}}) {
    CAPTURE(std::string(tag));
    int found = 0;
    for (size_t at = 0; (at = events.find(tag, at)) != std::string::npos; ++at) ++found;
    CHECK(found == n);
  }
}

TEST_CASE("which ranks write metrics, and as what") {
  const auto name = [](const std::string& which, topology::Coordinates at,
                       std::vector<int64_t> listed = {}) {
    plan::PlanDraft plan;
    plan.experiment.run.rank_metrics = which;
    plan.experiment.run.metrics_ranks = std::move(listed);
    plan.at = at;
    plan.rank = at.pipeline * 4 + at.data * 2 + at.tensor;
    return session::rank_metrics_name(plan);
  };
  CHECK(name("none", {1, 0, 1}) == "");
  CHECK(name("all", {1, 0, 1}) == "rank-5");
  CHECK(name("none", {1, 0, 1}, {3, 5}) == "rank-5");
  CHECK(name("none", {1, 0, 0}, {3, 5}) == "");
  CHECK(name("data", {0, 1, 1}, {3, 5}) == "rank-3");
  // The first of each coordinate along an axis.
  CHECK(name("pipeline", {0, 0, 0}) == "pipeline-0");
  CHECK(name("pipeline", {1, 0, 0}) == "pipeline-1");
  CHECK(name("pipeline", {1, 1, 0}) == "");
  CHECK(name("pipeline", {1, 0, 1}) == "");
  CHECK(name("data", {0, 1, 0}) == "data-1");
  CHECK(name("data", {1, 1, 0}) == "");
  CHECK(name("data", {0, 0, 0}) == "data-0");
  CHECK(name("tensor", {0, 0, 1}) == "tensor-1");
  CHECK(name("tensor", {0, 1, 1}) == "");
  CHECK(name("tensor", {0, 1, 0}) == "");
}
