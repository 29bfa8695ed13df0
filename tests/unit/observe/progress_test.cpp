#include "engine/observe/progress.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

using plait::observe::Progress;
using plait::observe::ProgressState;

ProgressState state(int64_t step) {
  return {.step = step,
          .steps = 1000,
          .loss = 0.23112,
          .lr = 0.01,
          .samples_per_s = 32123,
          .elapsed_s = 10.0,
          .first_step = 0};
}

}  // namespace

TEST_CASE("values that are not finite have no sign but that of infinity") {
  ProgressState s;
  s.step = 3;
  s.loss = -std::nan("");
  s.lr = std::numeric_limits<double>::infinity();
  s.samples_per_s = -std::nan("");
  CHECK(Progress::render(s, 80, false) == "step 3  loss nan  lr inf  nan samples/s");
}

TEST_CASE("a state reads well with and without a bar") {
  CHECK(Progress::render(state(500), 80, false) ==
        "step 500/1000  loss 0.2311  lr 0.01  32.1k samples/s  ETA 0:10");
  const std::string bar = Progress::render(state(500), 100, true);
  CHECK(bar.find("step 500/1000  [") == 0);
  CHECK(bar.size() < 100);
  const size_t open = bar.find('['), close = bar.find(']');
  CHECK(bar.find('-') == open + 1 + (close - open - 1) / 2);
  CHECK(Progress::render(state(500), 30, true).size() == 29);
  ProgressState s = state(0);
  CHECK(Progress::render(s, 80, false).find("ETA ?") != std::string::npos);
  s.steps = 0;
  CHECK(Progress::render(s, 80, true) == "step 0  loss 0.2311  lr 0.01  32.1k samples/s");
}

TEST_CASE("tokens, the share of the peak and the last evaluation are shown where they are known") {
  ProgressState s = state(500);
  s.tokens_per_s = 4.4e6;
  CHECK(Progress::render(s, 80, false) ==
        "step 500/1000  loss 0.2311  lr 0.01  4.40M tokens/s  ETA 0:10");
  s.mfu = 0.4123;
  s.evaluated_samples = 10;
  s.evaluation_loss = 1.5;
  CHECK(Progress::render(s, 80, false) ==
        "step 500/1000  loss 0.2311  eval 1.5  lr 0.01  4.40M tokens/s, 41 %  ETA 0:10");
  s.mfu = 0.0512;
  s.perplexity = 4.4817;
  CHECK(Progress::render(s, 80, false) ==
        "step 500/1000  loss 0.2311  eval 1.5 (ppl 4.482)  lr 0.01  4.40M tokens/s, 5.1 %  ETA "
        "0:10");
}

TEST_CASE("the estimate counts from where this process began") {
  ProgressState s = state(600);
  s.first_step = 500;
  s.elapsed_s = 20;
  CHECK(Progress::render(s, 80, false).find("ETA 1:20") != std::string::npos);
  s.elapsed_s = 3600;
  CHECK(Progress::render(s, 80, false).find("ETA 4:00:00") != std::string::npos);
  s.elapsed_s = 36000;
  CHECK(Progress::render(s, 80, false).find("ETA 1d 16:00") != std::string::npos);
  s.step = 1200;
  CHECK(Progress::render(s, 80, false).find("ETA 0:00") != std::string::npos);
}

TEST_CASE("on a terminal updates are rare, and log lines go above the bar") {
  std::vector<std::string> out;
  {
    Progress progress({.terminal = true, .columns = 80, .terminal_every_s = 3600},
                      [&out](std::string_view text) { out.emplace_back(text); });
    progress.line("before");
    REQUIRE(out.size() == 1);
    CHECK(out[0] == "before\n");
    for (int i = 1; i <= 1000; ++i) progress.update(state(i));
    REQUIRE(out.size() == 2);
    CHECK(out[1].find("\r\x1b[Kstep 1/1000") == 0);
    progress.line("saved");
    REQUIRE(out.size() == 4);
    CHECK(out[2] == "\r\x1b[Ksaved\n");
    CHECK(out[3].find("step 1000/1000") != std::string::npos);
  }
  CHECK(out.back() == "\n");
  CHECK(out[out.size() - 2].find("step 1000/1000") != std::string::npos);
}

TEST_CASE("elsewhere there are plain lines, without control characters") {
  std::vector<std::string> out;
  {
    Progress progress({.terminal = false, .plain_every_s = 0},
                      [&out](std::string_view text) { out.emplace_back(text); });
    progress.update(state(1));
    progress.update(state(2));
    progress.line("note");
  }
  REQUIRE(out.size() == 3);
  CHECK(out[0].find("step 1/1000") == 0);
  CHECK(out[2] == "note\n");
  for (const std::string& text : out) CHECK(text.find('\x1b') == std::string::npos);

  out.clear();
  {
    Progress progress({.terminal = false, .plain_every_s = 3600},
                      [&out](std::string_view text) { out.emplace_back(text); });
    for (int i = 1; i <= 5; ++i) progress.update(state(i));
  }
  REQUIRE(out.size() == 1);  // only the last state, at the end
  CHECK(out[0].find("step 5/1000") == 0);
}

TEST_CASE("colour is there only when asked for, and disabled means silent") {
  std::string out;
  {
    Progress({.terminal = true, .color = true}, [&out](std::string_view t) {
      out += t;
    }).update(state(1));
  }
  CHECK(out.find("\x1b[32m") != std::string::npos);
  out.clear();
  {
    Progress({.terminal = true}, [&out](std::string_view t) { out += t; }).update(state(1));
  }
  CHECK(out.find("\x1b[32m") == std::string::npos);
  out.clear();
  {
    Progress({.enabled = false, .terminal = true}, [&out](std::string_view t) {
      out += t;
    }).update(state(1));
  }
  CHECK(out.empty());
}
