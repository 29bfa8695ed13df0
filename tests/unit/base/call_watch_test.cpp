#include "engine/base/call_watch.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/plugin_call.hpp"

using namespace plait;

namespace {

constexpr PluginCall kRead{"data-x", "read", "dataset", "x"},
    kBuild{"layer-y", "build", "layer", "y"}, kFinish{"comm-z", "finish", "backend", "z"};

// A log, and what was late.
struct Bench {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> lines, late;
  Log log{[this](uint32_t level, std::string_view text) {
    const std::lock_guard lock(mutex);
    lines.push_back(std::to_string(level) + " " + std::string(text));
    changed.notify_all();
  }};
  CallWatch watch;
  explicit Bench(double first)
      : watch(
            log,
            [this](const std::string& text) {
              const std::lock_guard lock(mutex);
              late.push_back(text);
              changed.notify_all();
            },
            first) {}
  size_t size_of(const std::vector<std::string>& list) {
    const std::lock_guard lock(mutex);
    return list.size();
  }
  // Waits for so many of a list.
  void wait_for(const std::vector<std::string>& list, size_t n) {
    std::unique_lock lock(mutex);
    constexpr std::chrono::seconds kPatience(60);
    REQUIRE(changed.wait_for(lock, kPatience, [&] { return list.size() >= n; }));
  }
};

void wait_long() { std::this_thread::sleep_for(std::chrono::milliseconds(800)); }
void wait_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

}  // namespace

TEST_CASE("a call that does not return is named, again when its time has doubled") {
  Bench b(0.02);
  CallMark mark(b.watch, 0);
  const WatchedThread thread(&mark);
  call_plugin(kRead, [&] {
    b.wait_for(b.lines, 3);
    return 0;
  });
  for (const std::string& line : b.lines) {
    CHECK(line.starts_with("2 [plugin data-x] read() of dataset 'x' has not returned for "));
    CHECK(line.ends_with(" s; it hangs, or needs longer (run.plugin_timeout sets a limit)"));
  }
  CHECK(b.late.empty());
}

TEST_CASE("a call that reaches the limit is reported once") {
  Bench b(1000);
  CallMark mark(b.watch, 0.02);
  const WatchedThread thread(&mark);
  call_plugin(kBuild, [&] {
    b.wait_for(b.late, 1);
    wait_a_little();
    return 0;
  });
  REQUIRE(b.lines.size() == 1);
  REQUIRE(b.late.size() == 1);
  CHECK(b.lines[0] == "3 " + b.late[0]);
  CHECK(b.late[0].starts_with("[plugin layer-y] build() of layer 'y' has not returned for "));
  CHECK(b.late[0].find("s, expected at most 0.02 (run.plugin_timeout)") != std::string::npos);
  // The next call is another.
  call_plugin(kRead, [&] {
    b.wait_for(b.late, 2);
    return 0;
  });
  CHECK(b.late[1].find("read() of dataset 'x'") != std::string::npos);
}

TEST_CASE("of calls inside of each other the innermost is named, and the outer one afterwards") {
  Bench b(1000);
  CallMark mark(b.watch, 0.02);
  const WatchedThread thread(&mark);
  call_plugin(kBuild, [&] {
    call_plugin(kRead, [&] {
      b.wait_for(b.late, 1);
      return 0;
    });
    b.wait_for(b.late, 2);
    return 0;
  });
  CHECK(b.late[0].find("read() of dataset") != std::string::npos);
  CHECK(b.late[1].find("build() of layer") != std::string::npos);
}

TEST_CASE("many short calls, a call between ranks and threads without a mark are never late") {
  constexpr double kLong = 0.5;  // a thread that is ready may wait for a core, too
  Bench b(kLong);
  CallMark mark(b.watch, kLong);
  {
    const WatchedThread thread(&mark);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1200);
    while (std::chrono::steady_clock::now() < until) call_plugin(kRead, [] { return 0; });
    call_plugin(kFinish, [] {
      wait_long();
      return 0;
    });
  }
  call_plugin(kRead, [] {
    wait_long();
    return 0;
  });
  CHECK(b.late.empty());
  CHECK(b.lines.empty());
}

TEST_CASE("a thread that works for a watched one is watched, too; marks come and go meanwhile") {
  Bench b(1000);
  CHECK_FALSE(CallMark::like_own());
  CallMark mark(b.watch, 0.02);
  const WatchedThread thread(&mark);
  std::unique_ptr<CallMark> other = CallMark::like_own();
  REQUIRE(other);
  std::thread worker([&] {
    const WatchedThread watched(other.get());
    call_plugin(kRead, [&] {
      b.wait_for(b.late, 1);
      return 0;
    });
  });
  for (int i = 0; i < 100; ++i) {
    const CallMark one(b.watch, 0.01), two(b.watch, 0);
    std::this_thread::yield();
  }
  worker.join();
  CHECK(b.late.size() == 1);
}

TEST_CASE("the names are read while calls begin and end") {
  Bench b(0.001);
  CallMark mark(b.watch, 0);
  const WatchedThread thread(&mark);
  constexpr int kCalls = 40;
  for (int i = 0; i < kCalls; ++i) {
    const std::string item = "item " + std::to_string(i);
    const PluginCall call{"p", "f", "layer", item};
    call_plugin(call, [&] {
      b.wait_for(b.lines, b.size_of(b.lines) + 1);
      return 0;
    });
  }
  CHECK(b.lines.size() >= kCalls);
}

TEST_CASE("a fork, which has no thread of the watch, closes it without waiting") {
  Log log;
  auto watch = std::make_unique<CallWatch>(log);
  { CallMark mark(*watch, 0); }
  wait_a_little();  // for the thread, which then waits for a mark
  const pid_t child = fork();
  if (child == 0) {
    watch.reset();
    _exit(7);
  }
  REQUIRE(child > 0);
  int status = 0;
  for (int i = 0; i < 200 && waitpid(child, &status, WNOHANG) == 0; ++i) wait_a_little();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) kill(child, SIGKILL);
}
