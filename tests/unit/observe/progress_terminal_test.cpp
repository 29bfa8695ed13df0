// The terminal at standard error, and lines that begin behind other text or at the last column.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/observe/progress.hpp"

namespace {

using namespace plait::observe;

// Standard error is a terminal of its own, or a file, while it exists; so many columns, 0 for one
// that does not tell.
class Stderr {
 public:
  explicit Stderr(int file) : before_(dup(STDERR_FILENO)), file_(file) {
    dup2(file, STDERR_FILENO);
  }
  static Stderr terminal(uint16_t columns) {
    const int control = posix_openpt(O_RDWR | O_NOCTTY);
    REQUIRE((grantpt(control) == 0 && unlockpt(control) == 0));
    winsize size = {};
    size.ws_col = columns;
    REQUIRE(ioctl(control, TIOCSWINSZ, &size) == 0);
    Stderr made(open(ptsname(control), O_RDWR | O_NOCTTY));
    made.control_ = control;
    return made;
  }
  Stderr(Stderr&& from) noexcept
      : before_(std::exchange(from.before_, -1)), file_(from.file_), control_(from.control_) {}
  ~Stderr() {
    if (before_ < 0) return;
    dup2(before_, STDERR_FILENO);
    for (const int file : {before_, file_, control_})
      if (file >= 0) close(file);
  }

 private:
  int before_, file_, control_ = -1;
};

// A variable of the environment with another value, or none.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* const now = getenv(name);
    had_ = now != nullptr;
    before_ = now ? now : "";
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { had_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  bool had_ = false;
  std::string before_;
};

ProgressState state(int64_t step) {
  return {.step = step,
          .steps = 1000,
          .loss = 0.23112,
          .lr = 0.01,
          .samples_per_s = 32123,
          .elapsed_s = 9.0,
          .first_step = 0};
}

std::string terminal_line(const ProgressState& s, int columns) {
  LineText line;
  add_terminal_line(line, s, {.columns = columns});
  return std::string(line.text());
}

}  // namespace

TEST_CASE("a bar is drawn on a terminal, as wide as that is, with colour unless it is not wanted") {
  const struct {
    const char *term, *no_color;
    bool terminal, color;
  } cases[] = {{"xterm", nullptr, true, true},
               {"xterm", "", true, true},
               {"xterm", "1", true, false},
               {"dumb", nullptr, false, false},
               {nullptr, nullptr, true, true}};
  for (const auto& one : cases) {
    const Variable term("TERM", one.term), no_color("NO_COLOR", one.no_color);
    ProgressConfig config;
    {
      const Stderr terminal = Stderr::terminal(100);
      config = progress_config_for_stderr();
      if (config.measure) config.style = config.style_now();
    }
    CHECK(config.terminal == one.terminal);
    CHECK(config.style.color == one.color);
    CHECK(config.style.columns == (one.terminal ? 100 : 80));
    const Stderr file(open("/dev/null", O_WRONLY));
    CHECK_FALSE(progress_config_for_stderr().terminal);
    CHECK_FALSE(progress_config_for_stderr().style.color);
  }
}

TEST_CASE("a terminal that does not tell how wide it is has 80 columns") {
  const Variable term("TERM", "xterm");
  int columns = 0;
  {
    const Stderr terminal = Stderr::terminal(0);
    const ProgressConfig config = progress_config_for_stderr();
    if (config.measure) columns = config.measure();
  }
  CHECK(columns == 80);
}

TEST_CASE("a bar ends once") {
  std::vector<std::string> out;
  {
    Progress progress({.terminal = true}, [&](std::string_view text) { out.emplace_back(text); });
    progress.update(state(1));
    progress.finish();
    progress.finish();
  }
  REQUIRE(out.size() == 3);
  CHECK(out[0] == out[1]);
  CHECK(out[2] == "\n");
}

TEST_CASE("a share of the device's peak that is not known is not shown") {
  CHECK(terminal_line(state(450), 200) ==
        " 45 %  [#############-----------------]   450/1000  loss  0.2311  lr     0.01  32.1k "
        "samples/s   0:09  ETA  0:11");
}

TEST_CASE("a line that just fits is shown") {
  const std::string shorter = " 45 %   450  loss  0.2311  ETA  0:11";
  const int columns = static_cast<int>(shorter.size()) + 3;
  CHECK(terminal_line(state(450), columns) == shorter);
  CHECK(terminal_line(state(450), columns - 1) == " 450/1000  loss  0.2311  ETA  0:11");
}

TEST_CASE("a line of work has the same width behind what erases the one before") {
  for (const int columns : {64, 65, 70, 120}) {
    LineText alone, behind;
    add_work_line(alone, "evaluating", "batches", {45, 100, 4}, {.columns = columns});
    behind.add(kEraseLine);
    add_work_line(behind, "evaluating", "batches", {45, 100, 4}, {.columns = columns});
    CHECK(std::string(behind.text()) == std::string(kEraseLine) + std::string(alone.text()));
  }
}
