#include "engine/observe/appended_file.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/text.hpp"
#include "engine/observe/metrics.hpp"
#include "engine/observe/run_dir.hpp"
#include "engine/observe/tensorboard.hpp"
#include "tests/unit/observe/temp_folder.hpp"

using plait::observe::AppendedFile;
using plait::observe::kLines;

namespace {

// While it exists, no file gets longer than that: a write stops where the limit is.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    before_handler_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit now = before_;
    now.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, before_handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_;
  void (*before_handler_)(int);
};

struct Lines {
  std::vector<std::string> all;
  plait::Log log{[this](uint32_t, std::string_view text) { all.emplace_back(text); }};
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string numbered(int i) { return "line " + std::to_string(i) + "\n"; }

}  // namespace

TEST_CASE("what a full disk does not take is written later, in order and once") {
  const TempFolder folder;
  Lines lines;
  std::string expected;
  {
    AppendedFile file(folder.files(), folder / "f", kLines, lines.log);
    for (int i = 0; i < 3; ++i) file.write(numbered(i));
    for (const rlim_t limit : {rlim_t{25}, rlim_t{33}, rlim_t{33}}) {
      // The limit cuts a line.
      const FullDisk full(limit);
      for (int i = 0; i < 2; ++i) file.write("more\n");
      CHECK(folder.files().info(folder / "f").size == limit);
    }
    CHECK(lines.all.size() == 1);
    CHECK(has(lines.all[0], "cannot write"));
    CHECK(has(lines.all[0], folder / "f"));
    CHECK(has(lines.all[0], "The run continues"));
    file.write(numbered(3));
    REQUIRE(lines.all.size() == 2);
    CHECK(has(lines.all[1], "is written again; nothing was lost"));
    file.write(numbered(4));
  }
  for (int i = 0; i < 3; ++i) expected += numbered(i);
  for (int i = 0; i < 6; ++i) expected += "more\n";
  CHECK(folder.read("f") == expected + numbered(3) + numbered(4));
  CHECK(lines.all.size() == 2);
}

TEST_CASE("beyond what is kept units are lost as a whole, and counted") {
  const TempFolder folder;
  Lines lines;
  const std::string line(AppendedFile::kMostKept / 4 - 1, 'x');
  {
    AppendedFile file(folder.files(), folder / "f", kLines, lines.log);
    {
      const FullDisk full(0);
      for (int i = 0; i < 9; ++i) file.write(std::to_string(i % 10) + line.substr(1) + "\n");
    }
    file.write("end\n");
    REQUIRE(lines.all.size() == 2);
    CHECK(has(lines.all[1], "is written again; 5 lines were lost"));
    file.write("behind\n");
    {
      const FullDisk full(0);
      for (const char* text : {"a\n", "b\n"}) file.write(text);  // there is room again
    }
    file.write("last\n");
    CHECK(has(lines.all.back(), "is written again; nothing was lost"));
  }
  const auto found = plait::split(folder.read("f"), '\n');
  REQUIRE(found.size() >= 6);
  for (size_t i = 0; i < 4; ++i) CHECK(found[i] == std::to_string(i) + line.substr(1));
  CHECK(found[4] == "end");
  CHECK(found[5] == "behind");
}

TEST_CASE("a file that stays incomplete says how much is missing") {
  const TempFolder folder;
  Lines lines;
  const FullDisk full(7);
  {
    AppendedFile file(folder.files(), folder / "f", kLines, lines.log);
    for (int i = 0; i < 4; ++i) file.write(numbered(i));
  }
  CHECK(folder.read("f") == "line 0\n");
  CHECK(has(lines.all.back(), "the last 3 lines of " + (folder / "f") + " are missing"));
  CHECK(lines.all.size() == 2);
}

TEST_CASE("what a batch left is counted by the lines that are not complete in the file") {
  const TempFolder folder;
  Lines lines;
  {
    const FullDisk full(9);
    AppendedFile file(folder.files(), folder / "f", kLines, lines.log);
    // The file ends in the second line.
    file.write("\n" + numbered(0) + numbered(1) + numbered(2));
    file.write("\n" + numbered(3));  // an empty one is none
  }
  CHECK(folder.read("f") == "\nline 0\nl");
  CHECK(has(lines.all.back(), "the last 3 lines of "));
}

TEST_CASE("behind a unit that was lost none is kept, and room that is free again is used") {
  const TempFolder folder;
  Lines lines;
  const std::string large(AppendedFile::kMostKept - 20, 'x'), more(30, 'y');
  {
    AppendedFile file(folder.files(), folder / "f", kLines, lines.log);
    {
      const FullDisk full(0);
      file.write(large + "\n");
      file.write(more + "\n");  // lost: too much
      file.write("z\n");        // would have room
    }
    file.write("end\n");  // the file is writable before it is needed
  }
  CHECK(folder.read("f") == large + "\nend\n");
  CHECK(has(lines.all.back(), "is written again; 2 lines were lost"));
  CHECK(lines.all.size() == 2);
}

TEST_CASE("a file that is moved away meanwhile is continued where it is") {
  const TempFolder folder;
  Lines lines;
  AppendedFile file(folder.files(), folder / "f", kLines, lines.log);
  file.write(numbered(0));
  folder.files().rename(folder / "f", folder / "g");
  {
    const FullDisk full(10);
    file.write(numbered(1));
  }
  file.write(numbered(2));
  CHECK(folder.read("g") == numbered(0) + numbered(1) + numbered(2));
}

TEST_CASE("records of an event file that are missing are counted") {
  const TempFolder folder;
  Lines lines;
  {
    const FullDisk full(110);
    plait::observe::TensorBoardWriter events(folder.files(), folder.path(), 5.0, lines.log);
    for (int step = 1; step <= 5; ++step) events.scalar("x", step, 5.0, step);
    events.flush();
  }
  // 40 bytes of the version, then a whole one of 41: 16 around 25 of content.
  CHECK(has(lines.all.back(), "the last 4 records of "));
}

TEST_CASE("a log continues behind a full disk, and says that lines are missing") {
  const TempFolder folder;
  {
    plait::observe::LogFile log(folder.files(), folder / "log");
    log.line(PLAIT_LOG_INFO, "first");
    {
      const FullDisk full(folder.files().info(folder / "log").size + 5);
      log.line(PLAIT_LOG_INFO, "second");
      for (int i = 0; i < 40; ++i) log.line(PLAIT_LOG_INFO, std::string(10000, 'x'));
    }
    log.line(PLAIT_LOG_INFO, "last");
  }
  const std::string text = folder.read("log");
  const auto at = [&](const std::string& part) {
    const size_t found = text.find(part);
    CAPTURE(part);
    REQUIRE(found != std::string::npos);
    CHECK(text.find(part, found + 1) == std::string::npos);
    return found;
  };
  CHECK(at("info  first\n") < at("info  second\n"));
  CHECK(at("info  second\n") < at("warn  [files] cannot write"));
  CHECK(at("warn  [files] cannot write") < at("info  last\n"));
  CHECK(at("info  last\n") < at("is written again; 14 lines were lost\n"));
  CHECK(text.ends_with("lines were lost\n"));
}

TEST_CASE("metrics and event files are whole behind a full disk") {
  const TempFolder folder;
  Lines lines;
  std::string path;
  {
    plait::observe::NdjsonWriter metrics(folder.files(), folder / "m", "r", lines.log);
    plait::observe::TensorBoardWriter events(folder.files(), folder.path(), 5.0, lines.log);
    path = events.path();
    for (int step = 1; step <= 30; ++step) {
      std::optional<FullDisk> full;
      if (step > 10 && step <= 20) full.emplace(2000);
      metrics.step({.step = step});
      events.scalar("x", step, 5.0, step);
      events.flush();
    }
  }
  std::vector<int64_t> steps, expected;
  for (const std::string& line : plait::split(folder.read("m"), '\n'))
    if (!line.empty()) steps.push_back(nlohmann::json::parse(line).at("step").get<int64_t>());
  for (int step = 1; step <= 30; ++step) expected.push_back(step);
  CHECK(steps == expected);
  // Each record has its length in front and 12 bytes around it (tensorboard.hpp).
  const std::string text = folder.files().read_all(path, 1u << 20);
  size_t n = 0, at = 0;
  for (; at + 12 <= text.size(); ++n) {
    uint64_t size = 0;
    std::memcpy(&size, text.data() + at, sizeof size);
    at += 16 + size;
  }
  CHECK(at == text.size());
  CHECK(n == 31);
}
