// Waiting between processes: poll for a while, then sleep on a futex.
#pragma once

#include <chrono>

#include "plugins/comm/shm/layout.hpp"

namespace plait::comm_shm {

using Clock = std::chrono::steady_clock;

// `seconds` from now; at most a year, so that it does not overflow.
Clock::time_point after(double seconds);

// Wakes the waiters of an event. Call it after a seq_cst store of the awaited value.
void notify(FutexEvent& event) noexcept;
// Sleeps until the event is notified or `most` has passed. Checks `ready` once more after
// registering as a waiter: a thread that makes it true later notifies. Returns the result of that
// check.
template <class Ready>
bool wait_event(FutexEvent& event, std::chrono::nanoseconds most, Ready&& ready);

// How long spinning pays: not at all where ranks share cores.
class Spinner {
 public:
  explicit Spinner(bool oversubscribed) : oversubscribed_(oversubscribed) {}
  // Spins for a while, then yields and polls again; returns whether ready() became true. ready()
  // may throw.
  template <class Ready>
  bool spin(Ready&& ready) const;

 private:
  bool oversubscribed_;
};
// Whether there are more ranks than cores: spinning would then only keep other ranks from running.
bool more_than_cores(uint32_t ranks);

namespace detail {
void futex_wait(Flag& word, uint32_t seen, std::chrono::nanoseconds most) noexcept;
void yield() noexcept;
inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
}  // namespace detail

template <class Ready>
bool wait_event(FutexEvent& event, std::chrono::nanoseconds most, Ready&& ready) {
  const uint32_t seen = event.sequence;
  event.waiters.fetch_add(1);  // threads of this rank may wait for different calls
  struct Deregister {
    FutexEvent& event;
    ~Deregister() { event.waiters.fetch_sub(1); }
  } deregister{event};
  if (ready()) return true;
  detail::futex_wait(event.sequence, seen, most);
  return false;
}

template <class Ready>
bool Spinner::spin(Ready&& ready) const {
  constexpr auto kSpin = std::chrono::microseconds(40);
  constexpr int kPolls = 32, kYields = 20;
  if (!oversubscribed_) {
    const auto end = Clock::now() + kSpin;
    do
      for (int i = 0; i < kPolls; ++i) {
        if (ready()) return true;
        detail::pause();
      }
    while (Clock::now() < end);
  }
  for (int i = 0; i < kYields; ++i) {
    if (ready()) return true;
    detail::yield();
  }
  return false;
}

}  // namespace plait::comm_shm
