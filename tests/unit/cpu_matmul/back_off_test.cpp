// When the pool of OpenMP is not used, from measurements, and that work is complete without it.
#include "plugins/devices/cpu/back_off.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "plugins/devices/cpu/parallel.hpp"

namespace {

using namespace plait::cpu;

// A machine on which regions take these seconds, and the pool waits for that part of the time.
struct Machine {
  double on_pool = 10e-6, alone = 15e-6, waits = 0;
};

struct Run {
  BackOff back_off;
  double seconds = 0, spent_alone = 0;

  // For that many seconds, in windows such as the watch makes.
  void on(const Machine& m, double length) {
    for (const double end = seconds + length; seconds < end;) {
      const bool alone = back_off.alone();
      const double region = alone ? m.alone : m.on_pool;
      const double window = std::clamp(4096 * region, 0.05, 0.3);
      if (alone) spent_alone += window;
      seconds += window;
      back_off.end_window({window, std::lround(window / region), alone ? 0 : window * m.waits});
    }
  }
};

constexpr Machine kQuiet, kBusy{150e-6, 15e-6, 0.9};

}  // namespace

TEST_CASE("a quiet machine is never tried with one thread") {
  Run run;
  run.on(kQuiet, 60);
  run.on({10e-6, 5e-6, 0.1}, 60);  // even where that were faster: only waiting counts
  CHECK(run.spent_alone == 0);
}

TEST_CASE("beside a busy process one thread computes, and the pool is tried now and then") {
  Run run;
  run.on(kQuiet, 5);
  run.on(kBusy, 100);
  CHECK(run.spent_alone > 92);
  CHECK(run.spent_alone < 99.9);
  CHECK(run.back_off.alone());
}

TEST_CASE("the pool is back soon after the machine is quiet") {
  Run run;
  run.on(kBusy, 100);
  run.spent_alone = 0;
  run.on(kQuiet, 100);
  CHECK(run.spent_alone < 8.5);
  CHECK_FALSE(run.back_off.alone());
  // What was learned of the busy time is forgotten.
  run.on(kBusy, 1);
  CHECK(run.back_off.alone());
}

TEST_CASE("the pool stays where it is faster all the same, and one thread is tried rarely") {
  Run run;
  run.on({20e-6, 60e-6, 0.9}, 100);  // sixteen cores beside one busy process
  CHECK(run.spent_alone > 0);
  CHECK(run.spent_alone < 3);
}

TEST_CASE("large regions stay on the pool, even where one thread seems faster") {
  Run run;
  run.on({5e-3, 4e-3, 0.9}, 100);
  CHECK(run.spent_alone < 6);
}

TEST_CASE("a region that has one thread does the same work") {
  const auto squares = [] {
    std::vector<int64_t> out(1000);
    for (int i = 0; i < 300; ++i)
      in_parallel(4, 1000, [&](int64_t first, int64_t last) {
        for (int64_t k = first; k < last; ++k) out[static_cast<size_t>(k)] += k * k;
      });
    return out;
  };
  const auto expected = squares();
  PoolUse& use = pool_use();
  const PoolUse before = use;
  use.look = []() noexcept { pool_use().alone = !pool_use().alone; };
  CHECK(squares() == expected);
  use.alone = true;
  use.look = []() noexcept {};
  int threads = 0;
  on_pool(4, [&](int, int all) { threads = all; });
  CHECK(threads == 1);
  use = before;
}

TEST_CASE("who asks for a number of threads has them") {
  back_off_if_busy(true);
  REQUIRE((pool_use().look != nullptr));
  pool_use().alone = true;
  back_off_if_busy(true);
  CHECK(pool_use().alone);
  back_off_if_busy(false);
  CHECK((pool_use().look == nullptr));
  CHECK_FALSE(pool_use().alone);
}
