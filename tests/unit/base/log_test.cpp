#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

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
      second =
          log.listen([&](uint32_t, std::string_view t) { heard.push_back("2 " + std::string(t)); });
    if (text == "close") log.unlisten(first);
  });
  first = log.listen([&](uint32_t, std::string_view t) { heard.push_back("1 " + std::string(t)); });
  log.info("open");
  log.info("close");
  log.unlisten(second);
  log.info("nobody");
  CHECK(heard == std::vector<std::string>{"1 open", "2 open", "2 close"});
  log.set_sink(nullptr);
  CHECK_FALSE(log.wants(PLAIT_LOG_DEBUG));
}
