// Waiting between processes: look for a while, then sleep on a futex.
#pragma once

#include <chrono>

#include "plugins/comm/shm/layout.hpp"

namespace plait::comm_shm {

using Clock = std::chrono::steady_clock;

// `seconds` from now; at most a year, so that it does not overflow.
Clock::time_point after(double seconds);

// Wakes who sleeps at the bell. After a seq_cst store of what it waits for.
void ring(Bell& bell) noexcept;
// Sleeps until somebody rings, or `most` has passed. `ready` is asked once more when the bell is hung up: who makes it true later
// rings. Returns whether it was.
template <class Ready>
bool sleep(Bell& bell, std::chrono::nanoseconds most, Ready&& ready);

// How long looking pays: not at all where ranks share cores.
class Spinner {
 public:
  explicit Spinner(bool crowded) : crowded_(crowded) {}
  // Looks for a while, then lets others run and looks again; returns whether ready() became true. ready() may throw.
  template <class Ready>
  bool spin(Ready&& ready) const;

 private:
  bool crowded_;
};
// Whether `ranks` are more than the cores of this machine: then to spin only keeps others from running.
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
bool sleep(Bell& bell, std::chrono::nanoseconds most, Ready&& ready) {
  const uint32_t seen = bell.strokes;
  bell.sleeping.fetch_add(1);  // threads of this rank may wait for different calls
  struct Awake {
    Bell& bell;
    ~Awake() { bell.sleeping.fetch_sub(1); }
  } awake{bell};
  if (ready()) return true;
  detail::futex_wait(bell.strokes, seen, most);
  return false;
}

template <class Ready>
bool Spinner::spin(Ready&& ready) const {
  constexpr auto kSpin = std::chrono::microseconds(40);
  constexpr int kLooks = 32, kYields = 20;
  if (!crowded_) {
    const auto end = Clock::now() + kSpin;
    do
      for (int i = 0; i < kLooks; ++i) {
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
