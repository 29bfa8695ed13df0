#include "engine/observe/progress.hpp"
#include "engine/observe/work_progress.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace plait::observe;

ProgressState state(int64_t step) {
  return {.step = step,
          .steps = 1000,
          .loss = 0.23112,
          .lr = 0.01,
          .samples_per_s = 32123,
          .elapsed_s = 10.0,
          .first_step = 0};
}

std::string plain_line(const ProgressState& s) {
  LineText line;
  add_plain_line(line, s);
  return std::string(line.text());
}

std::string terminal_line(const ProgressState& s, const TerminalStyle& style) {
  LineText line;
  add_terminal_line(line, s, style);
  return std::string(line.text());
}

std::string work_line(const WorkState& s, int columns, std::string_view what = "evaluating") {
  LineText line;
  add_work_line(line, what, "batches", s, {.columns = columns});
  return std::string(line.text());
}

// What time it is, in nanoseconds.
uint64_t now = 0;
constexpr uint64_t kSecond = 1'000'000'000;

// A line at each update.
ProgressConfig on_terminal() {
  return {.terminal = true, .terminal_every_s = 0, .clock = [] { return now; }};
}

}  // namespace

TEST_CASE("values that are not finite have no sign but that of infinity") {
  ProgressState s;
  s.step = 3;
  s.loss = -std::nan("");
  s.lr = std::numeric_limits<double>::infinity();
  s.samples_per_s = -std::nan("");
  CHECK(plain_line(s) == "step 3  loss nan  lr inf  nan samples/s");
}

TEST_CASE("a plain line: what is known of a state") {
  ProgressState s = state(500);
  CHECK(plain_line(s) == "step 500/1000  loss 0.2311  lr 0.01  32.1k samples/s  ETA 0:10");
  s.tokens_per_s = 4.4e6;
  CHECK(plain_line(s) == "step 500/1000  loss 0.2311  lr 0.01  4.40M tokens/s  ETA 0:10");
  s.tokens_per_s = 1;
  CHECK(plain_line(s) == "step 500/1000  loss 0.2311  lr 0.01  1 tokens/s  ETA 0:10");
  s.tokens_per_s = 4.4e6;
  s.mfu = 0.4123;
  s.evaluated_samples = 10;
  s.evaluation_loss = 1.5;
  CHECK(plain_line(s) ==
        "step 500/1000  loss 0.2311  eval 1.5  lr 0.01  4.40M tokens/s, mfu 41 %  ETA 0:10");
  s.mfu = 0.0512;
  s.perplexity = 4.4817;
  CHECK(plain_line(s) ==
        "step 500/1000  loss 0.2311  eval 1.5 (ppl 4.482)  lr 0.01  4.40M tokens/s, mfu 5.1 %  ETA "
        "0:10");
}

TEST_CASE("numbers have three digits, on both sides of each power of ten") {
  const auto rate = [](double v) {
    ProgressState s = state(1);
    s.steps = 0;
    s.samples_per_s = v;
    const std::string line = plain_line(s);
    const size_t from = line.rfind("0.01  ") + 6;
    return line.substr(from, line.rfind(" samples/s") - from);
  };
  CHECK(rate(0) == "0");
  CHECK(rate(1) == "1");
  CHECK(rate(999.4) == "999");
  CHECK(rate(999.5) == "1.00k");
  CHECK(rate(9994) == "9.99k");
  CHECK(rate(9995) == "10.0k");
  CHECK(rate(99940) == "99.9k");
  CHECK(rate(99950) == "100k");
  CHECK(rate(2.5e9) == "2.50G");
  CHECK(rate(5e15) == "5000T");
  ProgressState s = state(1);
  s.mfu = 0.0994;
  CHECK(plain_line(s).find("mfu 9.9 %") != std::string::npos);
  s.mfu = 0.0995;
  CHECK(plain_line(s).find("mfu 10 %") != std::string::npos);
}

TEST_CASE("times of seconds, minutes, hours and days") {
  const auto left = [](double seconds) {
    ProgressState s = state(1);
    s.steps = 2;
    s.elapsed_s = seconds;
    const std::string line = plain_line(s);
    return line.substr(line.rfind("ETA ") + 4);
  };
  CHECK(left(0) == "0:00");
  CHECK(left(59.4) == "0:59");
  CHECK(left(59.5) == "1:00");
  CHECK(left(3599) == "59:59");
  CHECK(left(3600) == "1:00:00");
  CHECK(left(3660) == "1:01:00");
  CHECK(left(86399) == "23:59:59");
  CHECK(left(86400) == "1d 00:00");
  CHECK(left(172799) == "1d 23:59");
  CHECK(left(1e9) == "11574d 01:46");
  CHECK(left(1.1e9) == "?");
  CHECK(left(-1) == "?");
}

TEST_CASE("a run of one step, one sample, one part, and no columns") {
  ProgressState s = state(1);
  CHECK(terminal_line(s, {.columns = 0}).empty());
  s.steps = 1;
  CHECK(terminal_line(s, {.columns = 200}).starts_with("100 %"));
  s.evaluated_samples = 1;
  s.evaluation_loss = 1.5;
  CHECK(plain_line(s).find("eval 1.5") != std::string::npos);
  CHECK(work_line({0, 1, 1}, 40, "x").starts_with("x  0 %"));
}

TEST_CASE("the estimate counts from where this process began") {
  const auto ends = [](const ProgressState& s, std::string_view text) {
    return plain_line(s).ends_with(text);
  };
  CHECK(ends(state(0), "ETA ?"));
  ProgressState s = state(600);
  s.first_step = 500;
  s.elapsed_s = 20;
  CHECK(ends(s, "ETA 1:20"));
  s.elapsed_s = 3600;
  CHECK(ends(s, "ETA 4:00:00"));
  s.elapsed_s = 36000;
  CHECK(ends(s, "ETA 1d 16:00"));
  s.step = 1200;
  CHECK(ends(s, "ETA 0:00"));
}

// The columns that a text takes: its code points.
size_t columns_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

TEST_CASE("a line of a terminal: fields go whole where columns are few, ETA last") {
  ProgressState s = state(450);
  s.elapsed_s = 9;
  CHECK(terminal_line(s, {90}) ==
        " 45 %  [########----------]   450/1000  loss  0.2311  32.1k samples/s   0:09  ETA  0:11");
  CHECK(terminal_line(s, {80}) ==
        " 45 %  [######---------]   450/1000  loss  0.2311  32.1k samples/s  ETA  0:11");
  CHECK(terminal_line(s, {60}) == " 45 %  [#####-------]   450/1000  loss  0.2311  ETA  0:11");
  // The share tells how many steps there are.
  CHECK(terminal_line(s, {40}) == " 45 %   450  loss  0.2311  ETA  0:11");
  CHECK(terminal_line(s, {38}) == " 450/1000  loss  0.2311  ETA  0:11");
  CHECK(terminal_line(s, {20}) == "ETA  0:11");
  CHECK(terminal_line(s, {5}) == "ETA  ");
  for (int columns = 12; columns < 250; ++columns)
    for (const bool utf8 : {false, true}) {
      s.average_loss = 0.25;
      s.epochs = 3.14;
      s.mfu = 0.41;
      s.evaluated_samples = 10;
      s.evaluation_loss = 0.3;
      const std::string text = terminal_line(s, {columns, utf8});
      CHECK(columns_of(text) <= static_cast<size_t>(columns - 3));
      CHECK(text.find("ETA") != std::string::npos);
    }
  CHECK(terminal_line(s, {200}) ==
        " 45 %  [#############-----------------]   450/1000  epoch 3.1  loss  0.2311  average    "
        "0.25  eval     0.3  lr     0.01  32.1k samples/s  mfu  41 %   0:09  ETA  0:11");
  s.steps = 0;
  CHECK(terminal_line(s, {50}) == "step 450  loss  0.2311  32.1k samples/s");
}

TEST_CASE("a bar keeps its width while values change, and fills by eighths of a column") {
  const auto bar_of = [](int64_t step, double loss, double elapsed) {
    ProgressState s = state(step);
    s.loss = loss;
    s.elapsed_s = elapsed;
    const std::string line = terminal_line(s, {80, true, true}), color = "\x1b[32m";
    const size_t begin = line.find(color) + color.size();
    return line.substr(begin, line.find("\x1b[0m") - begin);
  };
  for (int64_t step = 1; step <= 1000; ++step)
    CHECK(columns_of(bar_of(step, step % 2 ? 0.00977 : 12.3, static_cast<double>(step))) == 17);
  for (const double loss :
       {1.234e-05, -1.234e-05, 1.234e-100, 0.0001234, 123456.7, double{NAN}, double{INFINITY}})
    CHECK(columns_of(bar_of(1, loss, 1)) == 17);
  CHECK(bar_of(0, 1, 1) == "▕               ▏");
  CHECK(bar_of(500, 1, 1) == "▕███████▌       ▏");
  CHECK(bar_of(521, 1, 1) == "▕███████▊       ▏");
  CHECK(bar_of(999, 1, 1) == "▕██████████████▉▏");
  CHECK(bar_of(1000, 1, 1) == "▕███████████████▏");
}

int columns_now = 80;

TEST_CASE("a bar follows the width of its window, and shows the average of the last losses") {
  std::vector<std::string> out;
  ProgressConfig config = on_terminal();
  config.measure = [] { return columns_now; };
  Progress progress(config, [&out](std::string_view text) { out.emplace_back(text); });
  columns_now = 100;
  ProgressState s = state(1);
  s.loss = 1;
  progress.update(s);
  CHECK(out.back().find("average") == std::string::npos);  // of one
  s.step = 2;
  s.loss = std::nan("");
  progress.update(s);
  s.step = 3;
  s.loss = 3;
  columns_now = 120;
  progress.update(s);
  CHECK(out.back().find("loss       3  average    2.01") != std::string::npos);
  columns_now = 40;
  progress.update(s);
  CHECK(out.back() == "\r\x1b[K  0 %     3  loss       3  ETA 55:23");
}

TEST_CASE("on a terminal the line is redrawn ten times a second, and stays at the end") {
  std::vector<std::string> out;
  {
    ProgressConfig config;
    config.terminal = true;
    config.clock = [] { return now; };
    now = 5;
    Progress progress(config, [&out](std::string_view text) { out.emplace_back(text); });
    progress.update(state(1));
    REQUIRE(out.size() == 1);
    CHECK(out[0].starts_with("\r\x1b[K  0 %  ["));
    CHECK(out[0].find("   1/1000") != std::string::npos);
    now += kSecond / 10 - 1;
    progress.update(state(2));
    CHECK(out.size() == 1);
    now += 1;
    progress.update(state(3));
    REQUIRE(out.size() == 2);
    CHECK(out[1].find("   3/1000") != std::string::npos);
    progress.update(state(1000));
    CHECK(out.size() == 2);
  }
  REQUIRE(out.size() == 4);
  CHECK(out[2].find("1000/1000") != std::string::npos);
  CHECK(out[3] == "\n");
}

TEST_CASE("elsewhere there are plain lines, without control characters") {
  std::vector<std::string> out;
  const auto keep = [&out](std::string_view text) { out.emplace_back(text); };
  ProgressConfig config;
  config.clock = [] { return now; };
  {
    Progress progress(config, keep);
    progress.update(state(1));
    now += 10 * kSecond - 1;
    progress.update(state(2));
    CHECK(out.empty());
    now += 1;
    progress.update(state(3));
    REQUIRE(out.size() == 1);
    now += 10 * kSecond;
    progress.update(state(4));
  }
  REQUIRE(out.size() == 2);  // at the end only what was not told yet
  CHECK(out[0].starts_with("step 3/1000  loss"));
  CHECK(out[1].starts_with("step 4/1000  loss"));
  for (const std::string& text : out) {
    CHECK(text.ends_with("\n"));
    CHECK(text.find('\x1b') == std::string::npos);
  }

  out.clear();
  {
    Progress progress(config, keep);
    for (int i = 1; i <= 5; ++i) progress.update(state(i));
  }
  REQUIRE(out.size() == 1);  // only the last state, at the end
  CHECK(out[0].starts_with("step 5/1000"));
}

TEST_CASE("colour is there only when asked for, and disabled means silent") {
  const auto said = [](const ProgressConfig& config) {
    std::string out;
    Progress(config, [&out](std::string_view text) { out += text; }).update(state(1));
    return out;
  };
  ProgressConfig config = on_terminal();
  CHECK(said(config).find("\x1b[32m") == std::string::npos);
  config.style.color = true;
  CHECK(said(config).find("\x1b[32m[") != std::string::npos);
  CHECK(said(config).find("]\x1b[0m") != std::string::npos);
  config.enabled = false;
  CHECK(said(config).empty());
}

TEST_CASE("after its end a bar is not drawn any more") {
  int n = 0;
  Progress progress(on_terminal(), [&n](std::string_view) { ++n; });
  progress.finish();
  progress.update(state(1));
  CHECK(n == 0);
}

TEST_CASE("a line of work: its share, count, time and estimate, in the columns that there are") {
  const WorkState s{45, 100, 4};
  CHECK(work_line(s, 120) ==
        "evaluating  45 %  [#############-----------------]  45/100 batches  0:04  ETA 0:05");
  CHECK(work_line(s, 60) == "evaluating  45 %  45/100 batches  0:04  ETA 0:05");
  CHECK(work_line(s, 64) == work_line(s, 60));
  CHECK(work_line(s, 65) == "evaluating  45 %  [####------]  45/100 batches  0:04  ETA 0:05");
  CHECK(work_line(s, 15) == "evaluating  ");
  CHECK(work_line(s, 0).empty());
  CHECK(work_line({0, 0, 1}, 40, "x").starts_with("x  100 %"));
  const auto plain = [](const WorkState& of) {
    LineText line;
    add_plain_work_line(line, "evaluating", "batches", of);
    return std::string(line.text());
  };
  CHECK(plain(s) == "evaluating 45/100 batches  0:04  ETA 0:05");
  CHECK(plain({0, 100, 4}) == "evaluating 0/100 batches  0:04  ETA ?");
}

TEST_CASE("work is told of when it takes long, and its line is erased") {
  std::vector<std::string> said;
  const auto keep = [&](std::string_view text) { said.emplace_back(text); };
  ProgressConfig config;
  config.clock = [] { return now; };
  config.terminal = true;
  {
    WorkProgress work(config, keep, "evaluating", "batches", 4);
    now += kSecond - 1;
    work.update(1);
    CHECK(said.empty());
    now += 1;
    work.update(1);
    work.update(2);  // less than 0.1 s later
    now += kSecond / 10;
    work.update(2);
  }
  REQUIRE(said.size() == 3);
  CHECK(said[0].starts_with("\r\x1b[Kevaluating  25 %"));
  CHECK(said[0].ends_with("1/4 batches  0:01  ETA 0:03"));
  CHECK(said[1].starts_with("\r\x1b[Kevaluating  50 %"));
  CHECK(said[2] == "\r\x1b[K");

  said.clear();
  config.terminal = false;  // waits for one interval
  {
    WorkProgress work(config, keep, "evaluating", "batches", 4);
    now += 10 * kSecond - 1;
    work.update(1);
    CHECK(said.empty());
    now += 1;
    work.update(1);
  }
  REQUIRE(said.size() == 1);
  CHECK(said[0] == "evaluating 1/4 batches  0:10  ETA 0:30\n");
  config.enabled = false;
  {
    WorkProgress work(config, keep, "evaluating", "batches", 4);
    now += 100 * kSecond;
    work.update(1);
  }
  CHECK(said.size() == 1);
}
