#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "engine/data/ring.hpp"

using plait::data::Ring;

namespace {

// A filler on a thread of its own that counts what it has filled.
struct Filler {
  explicit Filler(uint64_t slots) : ring(slots), thread([this] { work(); }) {}
  ~Filler() {
    ring.stop();
    thread.join();
  }
  void work() {
    while (ring.room() >= 0) {
      filled.fetch_add(1);
      ring.filled();
    }
  }
  void wait_for(int n) const {
    while (filled.load() < n) std::this_thread::yield();
  }
  Ring ring;
  std::atomic<int> filled{0};
  std::thread thread;
};

}  // namespace

TEST_CASE("slots come in turn, each once") {
  for (const uint64_t slots : {2, 3, 4, 5, 33}) {
    Filler f(slots);
    for (uint64_t i = 0; i < 1000; ++i) CHECK(f.ring.take() == static_cast<int64_t>(i % slots));
  }
}

TEST_CASE("a short ring is filled up as soon as a slot is free, a long one when half of it is") {
  for (const int slots : {2, 3, 4}) {
    Filler f(static_cast<uint64_t>(slots));
    f.wait_for(slots);
    f.ring.take();
    f.ring.take();  // gives one back
    f.wait_for(slots + 1);
  }
  Filler f(16);
  f.wait_for(16);
  f.ring.take();
  for (int i = 0; i < 7; ++i) f.ring.take();  // nine are still full
  std::this_thread::yield();
  CHECK(f.filled.load() == 16);
  f.ring.take();
  f.wait_for(24);
}

TEST_CASE("after a pause and a restart it begins with the first slot") {
  Filler f(4);
  for (int i = 0; i < 7; ++i) f.ring.take();
  f.ring.pause();
  const int before = f.filled.load();
  std::this_thread::yield();
  CHECK(f.filled.load() == before);
  f.ring.restart();
  CHECK(f.ring.take() == 0);
  CHECK(f.ring.take() == 1);
}

TEST_CASE("what was filled before the end is delivered, then nothing") {
  Ring ring(4);
  std::thread filler([&] {
    for (int i = 0; i < 2; ++i) {
      ring.room();
      ring.filled();
    }
    ring.halt();
    CHECK(ring.room() == -1);
  });
  CHECK(ring.take() == 0);
  CHECK(ring.take() == 1);
  CHECK(ring.take() == -1);
  CHECK(ring.take() == -1);
  ring.stop();
  filler.join();
}
