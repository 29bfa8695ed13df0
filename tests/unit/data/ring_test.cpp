#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "engine/data/ring.hpp"

using plait::data::Ring;

namespace {

// A producer on a thread of its own that counts its filled slots.
struct Filler {
  explicit Filler(uint64_t slots) : ring(slots), thread([this] { work(); }) {}
  ~Filler() {
    ring.stop();
    thread.join();
  }
  void work() {
    while (ring.acquire_free() >= 0) {
      filled.fetch_add(1);
      ring.commit_filled();
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

TEST_CASE("slots are handed out in order, each once") {
  for (const uint64_t slots : {2, 3, 4, 5, 33}) {
    Filler f(slots);
    for (uint64_t i = 0; i < 1000; ++i)
      CHECK(f.ring.acquire_filled() == static_cast<int64_t>(i % slots));
  }
}

TEST_CASE("a short ring is filled up as soon as a slot is free, a long one when half of it is") {
  for (const int slots : {2, 3, 4}) {
    Filler f(static_cast<uint64_t>(slots));
    f.wait_for(slots);
    f.ring.acquire_filled();
    f.ring.acquire_filled();  // returns one
    f.wait_for(slots + 1);
  }
  Filler f(16);
  f.wait_for(16);
  f.ring.acquire_filled();
  for (int i = 0; i < 7; ++i) f.ring.acquire_filled();  // nine are still filled
  std::this_thread::yield();
  CHECK(f.filled.load() == 16);
  f.ring.acquire_filled();
  f.wait_for(24);
}

TEST_CASE("after a pause and a restart it begins with the first slot") {
  Filler f(4);
  for (int i = 0; i < 7; ++i) f.ring.acquire_filled();
  f.ring.pause();
  const int before = f.filled.load();
  std::this_thread::yield();
  CHECK(f.filled.load() == before);
  f.ring.restart();
  CHECK(f.ring.acquire_filled() == 0);
  CHECK(f.ring.acquire_filled() == 1);
}

TEST_CASE("slots filled before the end are delivered, then none") {
  Ring ring(4);
  std::thread filler([&] {
    for (int i = 0; i < 2; ++i) {
      ring.acquire_free();
      ring.commit_filled();
    }
    ring.close();
    CHECK(ring.acquire_free() == -1);
  });
  CHECK(ring.acquire_filled() == 0);
  CHECK(ring.acquire_filled() == 1);
  CHECK(ring.acquire_filled() == -1);
  CHECK(ring.acquire_filled() == -1);
  ring.stop();
  filler.join();
}
