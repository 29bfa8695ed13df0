#include "tests/cuda_emulator/block.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/cuda_emulator/asan.hpp"
#include "tests/cuda_emulator/fiber.hpp"

EmulatorState emulator_state;

namespace emulator {
namespace {

constexpr unsigned kMostThreads = 1024, kLanes = 32, kBarriers = 16;
constexpr size_t kMostShared = 232448;  // 227 KiB

std::string triple(const uint3& v) {
  return "(" + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " + std::to_string(v.z) + ")";
}
std::string hex(unsigned mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

// What a lane brought to the collective that it waits in.
struct Lane {
  unsigned mask = 0, argument = 0, width = 0;
  EmulatorCollective what = EMULATOR_SYNC;
  uint64_t value = 0, result = 0;
  void (*compute)(void* const*) = nullptr;
};
struct Warp {
  unsigned waiting = 0;  // a bit for each lane that waits in a collective
  Lane lanes[kLanes];
};
struct Barrier {
  unsigned threads = 0;  // that it waits for
  unsigned holds = 0;    // predicates that held
  std::vector<unsigned> waiting;
};
enum class At : uint8_t { not_begun, running, barrier, collective, ended };

// The block that runs, and the fibers, which are kept from block to block. A fiber runs thread
// after thread; when a thread has to wait, another fiber takes over. Threads that never wait cost a
// call.
class Block {
 public:
  std::string run(const Launch& launch);
  unsigned barrier(unsigned id, unsigned threads, bool predicate);
  uint64_t collective(const Lane& lane);
  [[noreturn]] void fail(unsigned thread, std::string what);
  unsigned current() const { return current_; }
  const Launch* launch() const { return launch_; }

 private:
  void prepare(const Launch& launch);
  void run_one();
  [[noreturn]] void work(Fiber& self);
  void make_current(unsigned thread) {
    current_ = thread;
    emulator_state.thread = index_[thread];
  }
  void push_ready(unsigned thread) { ready_[ready_end_++ % kMostThreads] = thread; }
  Fiber* next();
  void wait(At at);
  void complete(Warp& warp, unsigned first, unsigned mask);
  uint64_t shuffled(const Warp& warp, unsigned first, unsigned lane, unsigned mask);
  [[noreturn]] void fail_deadlocked();

  const Launch* launch_ = nullptr;
  unsigned count_ = 0, begun_ = 0, ended_ = 0, current_ = 0;
  dim3 shape_{0, 0, 0};
  uint3 index_[kMostThreads] = {};
  unsigned order_[kMostThreads] = {};  // in which threads begin
  Fiber* fiber_[kMostThreads] = {};    // of a thread that has begun
  At at_[kMostThreads] = {};
  unsigned barrier_result_[kMostThreads] = {};
  unsigned ready_[kMostThreads] = {};  // a ring: threads that may go on
  unsigned ready_begin_ = 0, ready_end_ = 0;
  Warp warps_[kMostThreads / kLanes];
  Barrier barriers_[kBarriers];
  Fiber* main_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::string error_;
  std::mt19937 random_;
  bool shuffled_order_ = false;
  // Forbidden, as what a launch leaves of shared memory. (That of __shared__ consists of static
  // variables, which the sanitizer keeps apart itself.)
  alignas(1024) std::array<unsigned char, 1024> in_front_;
  alignas(1024) std::array<unsigned char, kMostShared> shared_;
};

// Made by the first launch and never freed: a kernel may run while the process ends.
Block* the_block = nullptr;
inline Block& block() { return *the_block; }

void Block::prepare(const Launch& launch) {
  launch_ = &launch;
  error_.clear();
  const dim3& t = launch.threads;
  count_ = t.x * t.y * t.z;
  if (t.x != shape_.x || t.y != shape_.y || t.z != shape_.z) {
    shape_ = t;
    for (unsigned i = 0; i < count_; ++i) index_[i] = {i % t.x, i / t.x % t.y, i / t.x / t.y};
  }
  std::iota(order_, order_ + count_, 0u);
  const char* seed = std::getenv("PLAIT_CUDA_EMULATOR_SEED");
  shuffled_order_ = seed && std::atoi(seed) > 0;
  if (shuffled_order_) random_.seed(static_cast<unsigned>(std::atoi(seed)));
  emulator_state.threads = launch.threads;
  emulator_state.blocks = launch.blocks;
  emulator_state.dynamic_shared = shared_.data();
  forbid(in_front_.data(), in_front_.size());
  allow(shared_.data(), launch.dynamic_shared);
  forbid(shared_.data() + launch.dynamic_shared, kMostShared - launch.dynamic_shared);
}

void Block::run_one() {
  begun_ = ended_ = ready_begin_ = ready_end_ = 0;
  std::fill_n(at_, count_, At::not_begun);
  for (Warp& w : warps_) w.waiting = 0;
  for (Barrier& b : barriers_) b.waiting.clear();
  if (shuffled_order_) std::shuffle(order_, order_ + count_, random_);
  // As on the GPU, it holds what was left there; no kernel may read what it didn't write.
  std::memset(shared_.data(), 0xff, launch_->dynamic_shared);
  Fiber* first = next();
  main_->switch_to(*first);
}

std::string Block::run(const Launch& launch) {
  prepare(launch);
  Fiber here;
  main_ = &here;
  const dim3& n = launch.blocks;
  const uint64_t blocks = uint64_t{n.x} * n.y * n.z;
  // Another order of blocks: steps of a number that has no factor in common with theirs.
  uint64_t step = 1, at = 0;
  if (shuffled_order_ && blocks > 1) {
    do step = random_() % blocks + 1;
    while (std::gcd(step, blocks) != 1);
    at = random_() % blocks;
  }
  for (uint64_t i = 0; i < blocks && error_.empty(); ++i, at = (at + step) % blocks) {
    emulator_state.block = {static_cast<unsigned>(at % n.x), static_cast<unsigned>(at / n.x % n.y),
                            static_cast<unsigned>(at / n.x / n.y)};
    run_one();
  }
  if (!error_.empty()) {  // the fibers of waiting threads are in the middle of something
    idle_.clear();
    fibers_.clear();
  }
  launch_ = nullptr;
  return error_;
}

// A fiber's life: begins threads until another one can go on.
void Block::work(Fiber& self) {
  for (;;) {
    while (begun_ < count_ && ready_begin_ == ready_end_) {
      const unsigned thread = order_[begun_++];
      fiber_[thread] = &self;
      at_[thread] = At::running;
      make_current(thread);
      launch_->kernel->thunk(launch_->arguments);
      at_[current_] = At::ended;
      ++ended_;
    }
    Fiber* other = ended_ == count_ ? main_ : nullptr;
    if (!other) {
      if (ready_begin_ == ready_end_) fail_deadlocked();
      other = next();
    }
    idle_.push_back(&self);
    self.switch_to(*other);
  }
}

// The fiber to go on with; nullptr if all threads wait. Threads that can go on come before those
// that have not begun, so that few fibers are in use.
Fiber* Block::next() {
  if (ready_begin_ != ready_end_) {
    const unsigned thread = ready_[ready_begin_++ % kMostThreads];
    at_[thread] = At::running;
    make_current(thread);
    return fiber_[thread];
  }
  if (begun_ == count_) return nullptr;
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(
        [](Fiber& self, void* b) { static_cast<Block*>(b)->work(self); }, this, fibers_.size()));
    return fibers_.back().get();
  }
  Fiber* f = idle_.back();
  idle_.pop_back();
  return f;
}

// Stops the current thread until another one puts it among the ready ones.
void Block::wait(At at) {
  const unsigned me = current_;
  at_[me] = at;
  Fiber* other = next();
  if (!other) fail_deadlocked();
  if (other != fiber_[me]) fiber_[me]->switch_to(*other);
}

unsigned Block::barrier(unsigned id, unsigned threads, bool predicate) {
  const unsigned me = current_;
  if (threads == 0) threads = count_;
  if (id >= kBarriers) fail(me, "barrier " + std::to_string(id) + " of 16");
  if (threads > count_ || (threads % kLanes && threads != count_))
    fail(me, "a barrier of " + std::to_string(threads) + " threads in a block of " +
                 std::to_string(count_));
  Barrier& b = barriers_[id];
  if (b.waiting.empty()) {
    b.threads = threads;
    b.holds = 0;
  } else if (b.threads != threads) {
    fail(me, "a barrier of " + std::to_string(threads) + " threads, on which others wait for " +
                 std::to_string(b.threads));
  }
  b.waiting.push_back(me);
  b.holds += predicate;
  if (b.waiting.size() == threads) {
    if (shuffled_order_)
      std::shuffle(b.waiting.begin(), b.waiting.end(), random_);
    else if (threads == count_)
      std::iota(b.waiting.begin(), b.waiting.end(), 0u);
    else
      std::sort(b.waiting.begin(), b.waiting.end());
    for (unsigned t : b.waiting) {
      barrier_result_[t] = b.holds;
      push_ready(t);
    }
    b.waiting.clear();
  }
  wait(At::barrier);
  return barrier_result_[me];
}

uint64_t Block::shuffled(const Warp& warp, unsigned first, unsigned lane, unsigned mask) {
  const Lane& l = warp.lanes[lane];
  const unsigned start = lane & ~(l.width - 1), end = start + l.width;
  unsigned from = lane;
  if (l.what == EMULATOR_SHUFFLE) from = start + (l.argument & (l.width - 1));
  if (l.what == EMULATOR_SHUFFLE_UP && l.argument <= lane - start) from = lane - l.argument;
  if (l.what == EMULATOR_SHUFFLE_DOWN && l.argument < end - lane) from = lane + l.argument;
  if (l.what == EMULATOR_SHUFFLE_XOR && (lane ^ l.argument) < end) from = lane ^ l.argument;
  if (!(mask >> from & 1))
    fail(first + lane, "a shuffle reads lane " + std::to_string(from) + ", which its mask " +
                           hex(mask) + " does not name");
  return warp.lanes[from].value;
}

// All lanes of `mask` have come: gives each its result.
void Block::complete(Warp& warp, unsigned first, unsigned mask) {
  const Lane& common = warp.lanes[std::countr_zero(mask)];
  warp.waiting &= ~mask;
  if (common.what == EMULATOR_SYNC) return;
  if (common.what == EMULATOR_TOGETHER) {
    void* own[kLanes];
    for (unsigned i = 0; i < kLanes; ++i) own[i] = reinterpret_cast<void*>(warp.lanes[i].value);
    common.compute(own);
    return;
  }
  uint64_t ballot = 0;
  if (common.what == EMULATOR_BALLOT)
    for (unsigned i = 0; i < kLanes; ++i)
      if (mask >> i & 1) ballot |= (warp.lanes[i].value & 1) << i;
  for (unsigned i = 0; i < kLanes; ++i)
    if (mask >> i & 1)
      warp.lanes[i].result =
          common.what == EMULATOR_BALLOT ? ballot : shuffled(warp, first, i, mask);
}

uint64_t Block::collective(const Lane& lane) {
  const unsigned me = current_, first = me / kLanes * kLanes, own = me % kLanes;
  const unsigned lanes = std::min(count_ - first, kLanes);
  if (!(lane.mask >> own & 1))
    fail(me, "a collective whose mask " + hex(lane.mask) + " does not name the lane itself, " +
                 std::to_string(own));
  if (lanes < kLanes && lane.mask >> lanes)
    fail(me, "a collective whose mask " + hex(lane.mask) +
                 " names lanes that the warp lacks; it has " + std::to_string(lanes));
  if (lane.width == 0 || lane.width & (lane.width - 1) || lane.width > kLanes)
    fail(me, "a shuffle of width " + std::to_string(lane.width));
  Warp& warp = warps_[me / kLanes];
  // Comparing with one of those that wait will do: they have been compared with one another.
  if (const unsigned others = warp.waiting & lane.mask) {
    const Lane& l = warp.lanes[std::countr_zero(others)];
    if (l.mask != lane.mask || l.what != lane.what || l.compute != lane.compute)
      fail(me, "a collective of the lanes " + hex(l.mask) + ", in which lane " +
                   std::to_string(own) + " makes another call or names the lanes " +
                   hex(lane.mask));
  }
  warp.lanes[own] = lane;
  warp.waiting |= 1u << own;
  if ((warp.waiting & lane.mask) != lane.mask) {
    wait(At::collective);
  } else {
    complete(warp, first, lane.mask);
    for (unsigned i = 0; i < kLanes; ++i)
      if (i != own && lane.mask >> i & 1) push_ready(first + i);
  }
  return warp.lanes[own].result;
}

// Nothing can go on: which thread waits for which.
void Block::fail_deadlocked() {
  const auto first = [&](At at) {
    return static_cast<unsigned>(std::find(at_, at_ + count_, at) - at_);
  };
  const auto where = [&](unsigned t) {
    return at_[t] == At::ended     ? " has ended"
           : at_[t] == At::barrier ? " waits at a barrier"
                                   : " waits in a collective";
  };
  if (const unsigned t = first(At::collective); t < count_) {
    const Warp& warp = warps_[t / kLanes];
    const unsigned mask = warp.lanes[t % kLanes].mask, missing = mask & ~warp.waiting;
    const unsigned absent = t / kLanes * kLanes + static_cast<unsigned>(std::countr_zero(missing));
    fail(t, "waits in a collective of the lanes " + hex(mask) + ", to which thread " +
                triple(index_[absent]) + " never comes: it" + where(absent));
  }
  const unsigned t = first(At::barrier);
  for (const Barrier& b : barriers_) {
    if (std::find(b.waiting.begin(), b.waiting.end(), t) == b.waiting.end()) continue;
    unsigned absent = 0;
    while (std::find(b.waiting.begin(), b.waiting.end(), absent) != b.waiting.end()) ++absent;
    fail(t, "waits at a barrier that " + std::to_string(b.waiting.size()) + " of " +
                std::to_string(b.threads) + " threads have reached; thread " +
                triple(index_[absent]) + where(absent));
  }
  std::abort();  // a thread that waits is in one of these
}

// Leaves the launch for good. Nobody returns to the fiber, so nothing on its stack is destroyed.
void Block::fail(unsigned thread, std::string what) {
  error_ = "kernel " + launch_->kernel->name + ", block " + triple(emulator_state.block) +
           ", thread " + triple(index_[thread]) + ": " + what;
  std::string().swap(what);
  Fiber left;
  left.switch_to(*main_);
  std::abort();
}

// Says which kernel and which of its threads did what, if one runs.
void say_where(const char* what, const void* address) {
  const Launch* l = the_block ? block().launch() : nullptr;
  if (!l) return;
  const uint3 b = emulator_state.block, t = emulator_state.thread;
  char at[40] = "";
  if (address) std::snprintf(at, sizeof at, " at address %p", address);
  char text[400];
  const int n =
      std::snprintf(text, sizeof text,
                    "[cuda emulator] kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s%s\n",
                    l->kernel->name.c_str(), b.x, b.y, b.z, t.x, t.y, t.z, what, at);
  if (write(STDERR_FILENO, text, static_cast<size_t>(n)) < 0) std::abort();
}

// A fault of the processor in a kernel: says where, and leaves the signal to whoever had it before.
struct sigaction before_segv, before_bus, before_ill, before_fpe;
void on_fault(int signal, siginfo_t* info, void*) {
  say_where(
      signal == SIGILL ? "an access that is misaligned or outside an array" : strsignal(signal),
      info->si_addr);
  sigaction(SIGSEGV, &before_segv, nullptr);
  sigaction(SIGBUS, &before_bus, nullptr);
  sigaction(SIGILL, &before_ill, nullptr);
  sigaction(SIGFPE, &before_fpe, nullptr);
}

struct FaultHandlers {
  FaultHandlers() {
    struct sigaction ours {};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &ours, &before_segv);
    sigaction(SIGBUS, &ours, &before_bus);
    sigaction(SIGILL, &ours, &before_ill);
    sigaction(SIGFPE, &ours, &before_fpe);
  }
  ~FaultHandlers() {
    sigaction(SIGSEGV, &before_segv, nullptr);
    sigaction(SIGBUS, &before_bus, nullptr);
    sigaction(SIGILL, &before_ill, nullptr);
    sigaction(SIGFPE, &before_fpe, nullptr);
  }
};

}  // namespace

std::string run_blocks(const Launch& launch) {
  if (!the_block) {
    the_block = new Block;
#ifdef EMULATOR_ASAN
    __sanitizer_set_death_callback(
        [] { say_where("the access that the sanitizer reports", nullptr); });
#endif
  }
  const FaultHandlers handlers;
  return block().run(launch);
}

}  // namespace emulator

using emulator::block;

unsigned emulator_barrier(unsigned id, unsigned threads, int predicate) {
  return block().barrier(id, threads, predicate != 0);
}

uint64_t emulator_collective(EmulatorCollective what, unsigned mask, uint64_t value,
                             unsigned argument, unsigned width) {
  return block().collective({mask, argument, width, what, value, 0, nullptr});
}

void emulator_together(void (*compute)(void* const* lanes), void* own) {
  block().collective({~0u, 0, 32, EMULATOR_TOGETHER, reinterpret_cast<uint64_t>(own), 0, compute});
}

void emulator_trap(const char* what) { block().fail(block().current(), what); }
