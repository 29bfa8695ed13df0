#include "plugins/devices/cpu/back_off.hpp"

#include <fcntl.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

// Threads of a pool on a quiet machine wait for a thousandth of the time, beside one busy process
// for half of it or more.
constexpr double kBusy = 0.2;
constexpr double kFaster = 1.1;  // differences below are noise
// The pool may pay again at any time; that one thread does, where it did not, is less likely.
constexpr double kFirstHold = 0.5, kLongestAlone = 8, kLongestPool = 32;
// A window has the regions of many small steps, or is long beside the time slices of the scheduler.
constexpr double kLeastSeconds = 0.05, kMostSeconds = 0.3;
constexpr int64_t kLeastRegions = 4096;
// What took longer between two looks was the host's own time, so the window begins anew. If that
// happens again and again, it is how long regions take.
constexpr double kPause = 1;
constexpr double kSlow = 0.01;  // between looks; then the next one is after one region
constexpr int kMostPauses = 3;
// Of one thread, regions per second. Those of large models are longer: they lose little by waiting,
// and a window would not have all kernels of a step.
constexpr double kLeastRate = 1000;

using Clock = std::chrono::steady_clock;

// Of the calling thread: nanoseconds in which it could run but had no core. 0 if the system does
// not count them.
uint64_t waited_ns() noexcept {
  const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[96];
  const ssize_t n = read(file, text, sizeof text - 1);
  close(file);
  if (n <= 0) return 0;
  text[n] = '\0';
  char* end = nullptr;
  std::strtoull(text, &end, 10);  // nanoseconds on a core
  return std::strtoull(end, nullptr, 10);
}

// Seconds since the calling thread was last asked; 0 the first time.
double waited_since() noexcept {
  thread_local uint64_t before = 0;
  thread_local bool known = false;
  const uint64_t now = waited_ns(), more = known && now > before ? now - before : 0;
  before = now;
  known = true;
  return 1e-9 * static_cast<double>(more);
}

// Of the calling thread and, if it uses its pool, the workers.
double waited_of_pool(bool alone) noexcept {
  if (alone) return waited_since();
  double waited = 0;
#pragma omp parallel num_threads(grow_pool(1)) reduction(+ : waited)
  waited += waited_since();
  return waited;
}

struct Watch {
  BackOff back_off;
  Clock::time_point since{}, last{};
  int64_t regions = 0;
  uint32_t ahead = PoolUse::kPeriod;  // regions before the next look
  int pauses = 0;
};

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

void look() noexcept {
  thread_local Watch w;
  const auto now = Clock::now();
  const double gap = seconds_between(w.last, now);
  const bool paused = gap > kPause && w.pauses < kMostPauses;
  w.last = now;
  w.regions += w.ahead;
  pool_use().left = w.ahead = gap > kSlow ? 1 : PoolUse::kPeriod;
  const double seconds = seconds_between(w.since, now);
  const bool ends =
      seconds >= kLeastSeconds && (w.regions >= kLeastRegions || seconds >= kMostSeconds);
  if (!paused && !ends) return;
  const double waited = waited_of_pool(w.back_off.alone());
  if (!paused) w.back_off.end_window({seconds, w.regions, waited});
  w.pauses = paused ? w.pauses + 1 : 0;
  pool_use().alone = w.back_off.alone();
  w.regions = 0;
  w.since = w.last = Clock::now();
}

}  // namespace

void BackOff::hold(State state) {
  state_ = state;
  hold_ = std::clamp(2 * hold_, kFirstHold, state == State::kAlone ? kLongestAlone : kLongestPool);
  remaining_ = hold_;
}

void BackOff::end_window(const Window& w) {
  const double rate = static_cast<double>(w.regions) / w.seconds;
  const bool busy = w.waited > kBusy * w.seconds;
  remaining_ -= w.seconds;
  switch (state_) {
    case State::kPool:
      if (!busy) hold_ = 0;
      if (!busy || remaining_ > 0) return;
      other_rate_ = rate;
      state_ = State::kTryAlone;
      return;
    case State::kTryAlone:
      hold(rate > std::max(kLeastRate, kFaster * other_rate_) ? State::kAlone : State::kPool);
      other_rate_ = rate;
      return;
    case State::kAlone:
      other_rate_ = rate;
      if (remaining_ <= 0) state_ = State::kTryPool;
      return;
    case State::kTryPool:
      if (other_rate_ > kFaster * rate) return hold(State::kAlone);
      state_ = State::kPool;
      hold_ = remaining_ = 0;
  }
}

void back_off_if_busy(bool wanted) noexcept {
  PoolUse& use = pool_use();
  if (wanted == (use.look == look)) return;
  use.look = wanted ? look : nullptr;
  use.alone = false;
}

}  // namespace plait::cpu
