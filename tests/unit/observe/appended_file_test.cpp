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
#include "engine/observe/tensorboard.hpp"
#include "tests/unit/observe/temp_folder.hpp"

using plait::observe::AppendedFile;

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
    AppendedFile file(folder.files(), folder / "f", "lines", lines.log);
    for (int i = 0; i < 3; ++i) file.write(numbered(i), 1);
    for (const rlim_t limit : {rlim_t{25}, rlim_t{33}, rlim_t{33}}) {
      // The limit cuts a line.
      const FullDisk full(limit);
      for (int i = 0; i < 2; ++i) file.write("more\n", 1);
      CHECK(folder.files().info(folder / "f").size == limit);
    }
    CHECK(lines.all.size() == 1);
    CHECK(has(lines.all[0], "cannot write"));
    CHECK(has(lines.all[0], folder / "f"));
    CHECK(has(lines.all[0], "The run continues"));
    file.write(numbered(3), 1);
    REQUIRE(lines.all.size() == 2);
    CHECK(has(lines.all[1], "is written again; nothing was lost"));
    file.write(numbered(4), 1);
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
    AppendedFile file(folder.files(), folder / "f", "lines", lines.log);
    {
      const FullDisk full(0);
      for (int i = 0; i < 9; ++i) file.write(std::to_string(i % 10) + line.substr(1) + "\n", 1);
    }
    file.write("end\n", 1);
    REQUIRE(lines.all.size() == 2);
    CHECK(has(lines.all[1], "is written again; 6 lines were lost"));
    file.write("behind\n", 1);
  }
  const auto found = plait::split(folder.read("f"), '\n');
  REQUIRE(found.size() >= 5);
  for (size_t i = 0; i < 4; ++i) CHECK(found[i] == std::to_string(i) + line.substr(1));
  CHECK(found[4] == "behind");
}

TEST_CASE("a file that stays incomplete says how much is missing") {
  const TempFolder folder;
  Lines lines;
  const FullDisk full(7);
  {
    AppendedFile file(folder.files(), folder / "f", "lines", lines.log);
    for (int i = 0; i < 4; ++i) file.write(numbered(i), 1);
  }
  CHECK(folder.read("f") == "line 0\n");
  CHECK(has(lines.all.back(), "the last 3 lines of " + (folder / "f") + " are missing"));
  CHECK(lines.all.size() == 2);
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
