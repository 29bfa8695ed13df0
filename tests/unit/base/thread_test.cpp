#include "engine/base/thread.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <new>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/support/no_threads.hpp"
#include "tests/unit/error_of.hpp"

namespace {

using plait::Error;
using plait::run_on_threads;

TEST_CASE("every part runs once, the first in the calling thread") {
  for (const int64_t n : {1, 2, 7}) {
    CAPTURE(n);
    std::vector<std::thread::id> where(static_cast<size_t>(n));
    run_on_threads(n,
                   [&](int64_t i) { where[static_cast<size_t>(i)] = std::this_thread::get_id(); });
    CHECK(where[0] == std::this_thread::get_id());
    for (size_t i = 1; i < where.size(); ++i) {
      CHECK(where[i] != std::thread::id());
      CHECK(where[i] != where[0]);
    }
  }
}

TEST_CASE("an exception of a part is one of the caller, when all parts have returned") {
  for (const int64_t thrower : {0, 1, 4}) {
    CAPTURE(thrower);
    std::atomic<int> returned{0};
    const auto part = [&](int64_t i) {
      if (i == thrower) plait::fail_data("part " + std::to_string(i));
      ++returned;
    };
    CHECK_THROWS_WITH_AS(run_on_threads(5, part), ("part " + std::to_string(thrower)).c_str(),
                         Error);
    CHECK(returned == 4);
  }
}

TEST_CASE("of several exceptions the caller gets that of the first part, of any type") {
  CHECK_THROWS_AS(run_on_threads(4,
                                 [](int64_t i) {
                                   if (i == 2) throw std::bad_alloc();
                                   if (i == 3) throw 3;
                                 }),
                  std::bad_alloc);
  CHECK_THROWS_AS(run_on_threads(2, [](int64_t i) { throw static_cast<int>(i); }), int);
}

TEST_CASE("a system without threads is an error that names the limits, and no thread is left") {
  std::atomic<int> ran{0};
  std::string text;
  {
    const plait::test::NoThreads none;
    text = plait::test::error_of([&] { run_on_threads(3, [&](int64_t) { ++ran; }); }, PLAIT_ERR_IO);
  }
  CHECK(text ==
        "[base] cannot start a thread (limits: ulimit -u and -v): Resource temporarily "
        "unavailable");
  CHECK(ran == 0);
  run_on_threads(3, [&](int64_t) { ++ran; });
  CHECK(ran == 3);
}

}  // namespace
