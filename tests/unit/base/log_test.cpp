#include <doctest/doctest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.hpp"
#include "engine/base/log.hpp"

using namespace plait;

TEST_CASE("the log passes lines of its level on, without the newline") {
  std::vector<std::string> lines;
  Log log([&](uint32_t level, std::string_view text) {
    lines.push_back(std::to_string(level) + " " + std::string(text));
  });
  log.debug("no");
  log.info("yes\n");
  log.set_level(PLAIT_LOG_ERROR);
  log.warn("no");
  log.error("last");
  CHECK(lines == std::vector<std::string>{"1 yes", "3 last"});
  CHECK_FALSE(log.wants(PLAIT_LOG_WARN));
}

TEST_CASE("a log without a sink, or with one that throws, is silent") {
  Log none;
  none.error("nobody hears it");
  std::string heard;
  none.set_sink([&](uint32_t, std::string_view text) { heard += text; });
  none.error("now");
  CHECK(heard == "now");
  int calls = 0;
  Log bad([&](uint32_t, std::string_view) {
    ++calls;
    throw std::runtime_error("sink");
  });
  bad.error("x");
  bad.error("y");
  CHECK(calls == 2);
  bad.set_sink(nullptr);
  bad.error("z");
  CHECK(calls == 2);
}

TEST_CASE("one line at a time, from many threads") {
  int lines = 0;
  Log log([&](uint32_t, std::string_view) { ++lines; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) log.info("line");
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(lines == 2000);
}

TEST_CASE("a sink may add and remove listeners, itself included") {
  Log log;
  std::vector<std::string> heard;
  int first = -1, second = -1;
  log.set_sink([&](uint32_t, std::string_view text) {
    if (text == "open")
      second = log.listen(PLAIT_LOG_INFO, [&](uint32_t, std::string_view t) {
        heard.push_back("2 " + std::string(t));
      });
    if (text == "close") log.unlisten(first);
  });
  first = log.listen(PLAIT_LOG_INFO,
                     [&](uint32_t, std::string_view t) { heard.push_back("1 " + std::string(t)); });
  log.info("open");
  log.info("close");
  log.unlisten(second);
  log.info("nobody");
  CHECK(heard == std::vector<std::string>{"1 open", "2 open", "2 close"});
  log.set_sink(nullptr);
  CHECK_FALSE(log.wants(PLAIT_LOG_DEBUG));
}

TEST_CASE("levels have names") {
  CHECK(log_level_of("debug") == PLAIT_LOG_DEBUG);
  CHECK(log_level_of("info") == PLAIT_LOG_INFO);
  CHECK(log_level_of("warning") == PLAIT_LOG_WARN);
  CHECK(log_level_of("error") == PLAIT_LOG_ERROR);
  CHECK(log_level_of("") == PLAIT_LOG_INFO);
}

void write_all(Log& log) {
  log.debug("debug");
  log.info("info");
  log.warn("warning");
  log.error("error");
}

TEST_CASE("a listener hears its own level, whatever the sink and others hear") {
  using Lines = std::vector<std::string>;
  const Lines all{"debug", "info", "warning", "error"};
  for (uint32_t of_sink = PLAIT_LOG_DEBUG; of_sink <= PLAIT_LOG_ERROR; ++of_sink)
    for (uint32_t level = PLAIT_LOG_DEBUG; level <= PLAIT_LOG_ERROR; ++level) {
      CAPTURE(of_sink);
      CAPTURE(level);
      Lines sink, own, errors;
      const auto into = [](Lines& to) {
        return [&to](uint32_t, std::string_view text) { to.emplace_back(text); };
      };
      Log log(into(sink), of_sink);
      const int id = log.listen(level, into(own));
      log.listen(PLAIT_LOG_ERROR, into(errors));
      write_all(log);
      CHECK(sink == Lines(all.begin() + of_sink, all.end()));
      CHECK(own == Lines(all.begin() + level, all.end()));
      CHECK(errors == Lines{"error"});
      log.unlisten(id);
      CHECK(log.wants(PLAIT_LOG_WARN) == (of_sink <= PLAIT_LOG_WARN));  // the lower one is gone
      write_all(log);
      CHECK(own.size() == all.size() - level);
    }
}

TEST_CASE("a line that nobody wants is not made") {
  Log log({}, PLAIT_LOG_WARN);
  int made = 0;
  const auto line = [&] {
    ++made;
    return std::string("line");
  };
  log.debug(line);
  log.info(line);
  CHECK(made == 0);
  std::vector<std::string> heard;
  const int id = log.listen(PLAIT_LOG_INFO,
                            [&](uint32_t, std::string_view text) { heard.emplace_back(text); });
  log.debug(line);
  CHECK(made == 0);
  log.info(line);
  CHECK(made == 1);
  CHECK(heard == std::vector<std::string>{"line"});
  log.unlisten(id);
  log.info(line);
  CHECK(made == 1);
  log.write(PLAIT_LOG_ERROR, []() -> std::string { throw std::bad_alloc(); });  // is lost
}

TEST_CASE("a record keeps lines with their levels and times") {
  Log log({}, PLAIT_LOG_ERROR);
  const double before = unix_seconds();
  LogRecord record(&log, PLAIT_LOG_WARN);
  write_all(log);
  const std::vector<LogLine> lines = record.take();
  log.error("later");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].text == "warning");
  CHECK(lines[0].level == PLAIT_LOG_WARN);
  CHECK(lines[1].text == "error");
  CHECK(lines[1].unix_seconds >= before);
  CHECK(lines[1].unix_seconds <= unix_seconds());
  CHECK(record.take().empty());
  CHECK_FALSE(log.wants(PLAIT_LOG_WARN));
  CHECK(LogRecord(nullptr, PLAIT_LOG_DEBUG).take().empty());
}
