#include "plugins/devices/cpu/pool_watch.hpp"

#include <fcntl.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "plugins/devices/cpu/threads.hpp"

namespace plait::cpu {
namespace {

// Several threads are seldom as many times as fast as one.
constexpr double kEfficiency = 0.75;
// From one look at the threads to the next, and to the first behind a pause.
constexpr Nanoseconds kInterval = 100'000'000, kFirstInterval = 20'000'000;

Nanoseconds now() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// Linux, "Scheduler Statistics": time on a core, time waited for one, both in ns, number of turns.
bool read_delay(int file, Nanoseconds& delay) noexcept {
  char text[96];
  const ssize_t n = pread(file, text, sizeof text, 0);
  if (n <= 0) return false;
  const char* space = std::find(text, text + n, ' ');
  return space != text + n && std::from_chars(space + 1, text + n, delay).ec == std::errc();
}

}  // namespace

Nanoseconds PoolPauses::judge(int threads, double together) noexcept {
  if (threads * together * kEfficiency >= 1) {
    last_ /= 2;
    return 0;
  }
  return last_ = std::clamp(2 * last_, kFirst, kLongest);
}

PoolWatch& PoolWatch::own() noexcept {
  thread_local PoolWatch watch;
  return watch;
}

void PoolWatch::check(int threads) noexcept {
  if (threads < 2) return;
  const Nanoseconds time = now();
  if (threads == threads_ && time < next_) return;
  if (threads != threads_) open(threads);
  if (pauses_) {
    resume();
  } else if (read_at_ > 0) {
    if (const Nanoseconds pause_for = pauses_for_.judge(threads_, together(time)); pause_for > 0) {
      pause();
      next_ = time + pause_for;
      return;
    }
    next_ = time + kInterval;
    return;
  }
  read_at_ = read() ? time : 0;
  next_ = time + kFirstInterval;
}

void PoolWatch::leave() noexcept {
  if (pauses_) resume();
  close();
}

void PoolWatch::open(int threads) noexcept {
  leave();
  threads_ = threads;
  open_ = std::min(threads, kMost);
#pragma omp parallel num_threads(open_)
  if (const int i = omp_get_thread_num(); omp_get_num_threads() == open_)
    files_[static_cast<size_t>(i)] = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

void PoolWatch::close() noexcept {
  for (int i = 0; i < open_; ++i)
    if (int& file = files_[static_cast<size_t>(i)]; file > 0) ::close(std::exchange(file, 0));
  open_ = threads_ = 0;
  read_at_ = 0;
}

bool PoolWatch::read() noexcept {
  for (size_t i = 0; i < static_cast<size_t>(open_); ++i)
    if (files_[i] <= 0 || !read_delay(files_[i], delays_[i])) return false;
  return true;
}

double PoolWatch::together(Nanoseconds now) noexcept {
  const std::array<Nanoseconds, kMost> before = delays_;
  const auto passed = static_cast<double>(now - read_at_);
  read_at_ = read() ? now : 0;
  if (read_at_ == 0) return 1;
  double share = 1;
  for (size_t i = 0; i < static_cast<size_t>(open_); ++i)
    share *= 1 - std::clamp(static_cast<double>(delays_[i] - before[i]) / passed, 0.0, 1.0);
  return share;
}

void PoolWatch::pause() noexcept {
  pauses_ = true;
  levels_ = omp_get_max_active_levels();
  omp_set_max_active_levels(0);
  widen_caller();
}

void PoolWatch::resume() noexcept {
  pauses_ = false;
  omp_set_max_active_levels(levels_);
  narrow_caller();
}

}  // namespace plait::cpu
