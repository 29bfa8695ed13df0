// metrics/rank-N.ndjson: where steps continue, and which steps a line tells of.
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
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
