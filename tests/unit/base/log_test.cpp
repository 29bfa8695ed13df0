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
  Log bad([](uint32_t, std::string_view) { throw std::runtime_error("sink"); });
  bad.error("x");
  bad.set_sink(nullptr);
  bad.error("y");
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
