// What the log files of a run contain, by run.log_level.
#include "engine/session/rank_log.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.is_open(), path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The words for levels in a log file.
std::set<std::string> levels_of(const std::vector<std::string>& lines) {
  std::set<std::string> levels;
  for (const std::string& line : lines)
    if (!line.starts_with(" ")) levels.insert(std::string(trim(line.substr(25, 5))));
  return levels;
}

bool has(const std::vector<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

// By rank, the lines of its log.
std::vector<std::vector<std::string>> logs(std::vector<std::string> keys, int ranks) {
  const Folder folder;
  if (ranks > 1) keys.push_back("topology.data=" + std::to_string(ranks));
  for (const Outcome& o :
       run_all(keys, ranks, folder / "run", [](int) -> FileSystem& { return FileSystem::posix(); }))
    REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
  std::vector<std::vector<std::string>> all;
  for (int r = 0; r < ranks; ++r)
    all.push_back(lines_of(folder / ("run/log/rank-" + std::to_string(r) + ".log")));
  return all;
}

TEST_CASE("run.log_level says which lines the log file of each rank gets") {
  const std::string warned = "topology.virtual_stages has no effect";
  const std::vector<std::string> keys{"topology.virtual_stages=2"};
  const auto at = [&](const char* level) {
    std::vector<std::string> all = keys;
    all.push_back(std::string("run.log_level=") + level);
    return logs(all, 2);
  };
  const auto debug = at("debug"), info = at("info"), warning = at("warning"), error = at("error");
  for (int r = 0; r < 2; ++r) {
    CAPTURE(r);
    const size_t i = static_cast<size_t>(r);
    // How the ranks met, before there was a folder, and the plan, before there was a session.
    for (const char* text :
         {" has reached rank 0 at ", " has met all 2 ranks, on 1 machine, after ",
          " ranks exchange over threads", ": made in ", "[plan] program update: ",
          "[plan] program forward_backward_reduce: ", " all_reduce over axis data",
          " kernels are prepared", " parameters have initial values after ", "[checkpoint] rank "})
      CHECK_MESSAGE(has(debug[i], text), text);
    CHECK(levels_of(debug[i]).contains("debug"));
    for (const auto* other : {&info, &warning, &error})
      CHECK_FALSE(levels_of((*other)[i]).contains("debug"));
    CHECK(error[i].empty());
    // Lines are in the order of their times.
    CHECK(std::is_sorted(debug[i].begin(), debug[i].end(),
                         [](const std::string& a, const std::string& b) {
                           return a.substr(0, 24) < b.substr(0, 24);
                         }));
  }
  CHECK(has(debug[1], "[session] rank 1"));
  CHECK(has(info[1], "[session] rank 1"));
  CHECK_FALSE(has(warning[1], "[session] rank 1"));
  // Rank 0 warns.
  for (const auto* one : {&debug, &info, &warning}) CHECK(has((*one)[0], warned));
  CHECK(levels_of(warning[0]) == std::set<std::string>{"warn"});
}

TEST_CASE("steps write no lines") {
  const auto n_lines = [](const char* steps) {
    return logs({steps, "run.log_level=debug"}, 1)[0].size();
  };
  CHECK(n_lines("run.steps=2") == n_lines("run.steps=12"));
}

TEST_CASE("the level of the file is not that of the host") {
  for (const char* level : {"debug", "error"}) {
    const Folder folder;
    session::Settings settings;
    settings.run_dir = folder / "run";
    HookedFiles files;
    std::vector<std::string> heard;
    {
      const Rank rank({std::string("run.log_level=") + level, "topology.virtual_stages=2"}, files,
                      settings);
      heard = rank.lines;
    }
    CHECK(has(heard, "topology.virtual_stages has no effect"));
    CHECK_FALSE(has(heard, "[plan] program"));
    CHECK(has(lines_of(folder / "run/log/rank-0.log"), "[plan] program") ==
          (std::string(level) == "debug"));
  }
}

TEST_CASE("a session that writes no files keeps no lines for one") {
  session::Settings settings;
  settings.no_files = true;
  HookedFiles files;
  Rank rank({"run.log_level=debug"}, files, settings);
  rank.log.set_level(PLAIT_LOG_ERROR);
  CHECK_FALSE(rank.log.wants(PLAIT_LOG_WARN));
}

TEST_CASE("the error of a run is in its log at every level") {
  const Folder folder;
  const auto outcomes =
      run_all({"run.log_level=error", "optimizer.learning_rate=1e30", "run.steps=30",
               "guard.nonfinite_limit=2"},
              1, folder / "run", [](int) -> FileSystem& { return FileSystem::posix(); });
  REQUIRE(outcomes[0].code == PLAIT_ERR_NUMERIC);
  const auto lines = lines_of(folder / "run/log/rank-0.log");
  REQUIRE(lines.size() >= 1);
  CHECK(has(lines, " error [run] failed: "));
  CHECK(levels_of(lines) == std::set<std::string>{"error"});
}

TEST_CASE("a log file that cannot be opened is a warning on every rank but the first") {
  const Folder folder;
  Log log;
  std::vector<std::string> told;
  log.set_sink([&](uint32_t, std::string_view text) { told.emplace_back(text); });
  HookedFiles files([](const std::string& what, const std::string& path) {
    if (what == "open" && path.find("rank-") != std::string::npos) fail_io("[test] no", EACCES);
  });
  plan::Plan plan;
  plan.rank = 1;
  plan.experiment.run.log_level = "warning";
  plan.log_lines = {{1, PLAIT_LOG_WARN, "of the plan"}};
  session::RankLog own(plan, log);
  std::filesystem::create_directories(folder / "run/log");
  own.open_if_there(files, folder / "run");
  REQUIRE(told.size() == 1);
  CHECK(told[0].starts_with("[session] rank 1 writes no log: "));
  log.warn("later");
  session::RankLog first(plan, log);
  CHECK_THROWS_AS(first.open(files, folder / "run"), Error);
  first.open(FileSystem::posix(), folder / "run");
  log.warn("last");
  log.info("below");
  first.close();
  log.warn("behind");
  const auto lines = lines_of(folder / "run/log/rank-1.log");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "1970-01-01T00:00:01.000Z warn  of the plan");
  CHECK(lines[1].ends_with("warn  last"));
}

}  // namespace
