// Every kind, type, size and placing, on groups of every size: values, equal bits on all ranks and
// from time to time, no write outside of `out`, nobody ahead of a barrier.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>

#include "kit/dtype.hpp"
#include "tests/comm/cases.hpp"
#include "tests/comm/ranks.hpp"

namespace {

using namespace comm_test;
using plait::kit::dtype_bytes;

constexpr size_t kGuard = 64;
constexpr unsigned char kGuardByte = 0x5c;
constexpr size_t kMost = 2 * kGuard + 8 * 1000000;  // bytes of a call in place

// Memory of one call between two guards; `in` may lie in `out` or the other way round. Where it is
// done in place, it takes `there`.
class Memory {
 public:
  Memory(const Case& c, uint32_t ranks, uint32_t rank, std::span<unsigned char> there)
      : case_(c), ranks_(ranks), rank_(rank) {
    const uint64_t row = c.n * dtype_bytes(c.dtype);
    source_ = input(c, ranks, rank);
    out_bytes_ = out_elements(c, ranks) * dtype_bytes(c.dtype);
    const bool from_rows = c.in_place && source_.size() > out_bytes_;
    const bool to_rows = c.in_place && source_.size() < out_bytes_;
    const size_t bytes = kGuard * 2 + std::max<size_t>(out_bytes_, c.in_place ? source_.size() : 0);
    if (there.size() < bytes) own_.resize(bytes);
    whole_ = own_.empty() ? there.first(bytes) : std::span(own_);
    std::ranges::fill(whole_, kGuardByte);
    base_ = whole_.data() + kGuard;
    out_ = base_ + (from_rows ? rank * row : 0);
    in_ = c.in_place ? base_ + (to_rows ? rank * row : 0) : nullptr;
  }
  // What the rank calls: one call, or the two ends of its messages.
  std::vector<plait_comm_desc> descs() {
    const auto one = [&](uint32_t kind, uint32_t peer) {
      return desc(kind, case_.dtype, case_.n, in_ ? in_ : source_copy_data(), out_, case_.reduction,
                  peer);
    };
    if (case_.kind != PLAIT_COMM_SEND) return {one(case_.kind, case_.root)};
    return {one(PLAIT_COMM_SEND, (rank_ + 1) % ranks_),
            one(PLAIT_COMM_RECEIVE, (rank_ + ranks_ - 1) % ranks_)};
  }
  void fill() {
    if (!in_) source_copy_ = source_;
    if (!in_ || in_ != out_) std::fill_n(base_, whole_.size() - 2 * kGuard, 0xa5);
    if (in_ && !source_.empty()) std::memcpy(in_, source_.data(), source_.size());
  }
  void verify() const {
    const std::string where = case_.text() + ": ";
    const uint64_t n = out_elements(case_, ranks_);
    // Of much that is the same on all ranks each looks at its share; that it is the same, the
    // digests say.
    const bool shared = case_.same_on_all() && n > 10000;
    const uint64_t first = shared ? n * rank_ / ranks_ : 0,
                   last = shared ? n * (rank_ + 1) / ranks_ : n;
    const std::string wrong = fault(case_, ranks_, rank_, out_, first, last);
    require(wrong.empty(), where + wrong);
    require(in_ || source_copy_ == source_, where + "in has changed");
    const auto good = [](unsigned char c) { return c == kGuardByte; };
    require(std::all_of(whole_.begin(), whole_.begin() + kGuard, good) &&
                std::all_of(whole_.end() - kGuard, whole_.end(), good),
            where + "memory around out has changed");
  }
  Bytes result() const { return Bytes(out_, out_ + out_bytes_); }
  bool holds(const Bytes& result) const {
    return std::ranges::equal(result, std::span(out_, out_bytes_));
  }

 private:
  const void* source_copy_data() {
    if (source_copy_.size() != source_.size()) source_copy_ = source_;
    return source_copy_.data();
  }
  const Case case_;
  const uint32_t ranks_, rank_;
  Bytes source_, source_copy_, own_;
  std::span<unsigned char> whole_;
  uint64_t out_bytes_;
  unsigned char *base_ = nullptr, *out_ = nullptr, *in_ = nullptr;
};

uint64_t digest(const Bytes& bytes) {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// What the ranks of one table share: what each holds after each case (cases, R), and how many have
// come to barriers.
struct Shared {
  Shared(size_t cases, uint32_t ranks) : digests(cases, std::vector<uint64_t>(ranks)) {}
  std::vector<std::vector<uint64_t>> digests;
  std::atomic<uint32_t> came{0};
};

// Each rank comes late to one, and nobody may pass it before.
void run_barriers(Comm& comm, Shared& shared) {
  Call barrier(comm, desc(PLAIT_COMM_BARRIER, 0, 0, nullptr, nullptr));
  for (uint32_t late = 0; late < comm.size(); ++late) {
    if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ++shared.came;
    barrier.run();
    require(shared.came >= (late + 1) * comm.size(), "somebody passed a barrier early");
  }
}

void run(const std::vector<std::unique_ptr<Call>>& calls) {
  for (const auto& call : calls) call->start();
  for (const auto& call : calls) call->finish();
}

// Barriers and all cases on one group; or only those in place, in the group's own memory.
void run_table(Comm& comm, const std::vector<Case>& cases, Shared& shared, bool in_groups_memory) {
  run_barriers(comm, shared);
  std::span<unsigned char> there;
  if (auto* memory = in_groups_memory ? comm.memory<unsigned char>(kMost) : nullptr)
    there = {memory, kMost};
  require(in_groups_memory == !there.empty(), "the group has no memory");
  for (size_t i = 0; i < cases.size(); ++i) {
    if (in_groups_memory && !cases[i].in_place) continue;
    Memory memory(cases[i], comm.size(), comm.rank(),
                  cases[i].in_place ? there : std::span<unsigned char>());
    std::vector<std::unique_ptr<Call>> calls;
    for (const plait_comm_desc& desc : memory.descs())
      calls.push_back(std::make_unique<Call>(comm, desc));
    memory.fill();
    run(calls);
    memory.verify();
    const Bytes first = memory.result();
    memory.fill();
    run(calls);
    require(memory.holds(first), cases[i].text() + ": other bits the second time");
    shared.digests[i][comm.rank()] = digest(first);
  }
}

// What is done in place in the group's memory gives the same bits as elsewhere.
void check_in_memory(const Plugin& plugin, uint32_t ranks, const Shared& elsewhere) {
  const std::vector<Case> cases = all_cases(ranks);
  Shared shared(cases.size(), ranks);
  CHECK_NOTHROW(expect_all_ok(
      run_group(plugin, ranks, [&](Comm& comm) { run_table(comm, cases, shared, true); })));
  for (size_t i = 0; i < cases.size(); ++i)
    if (cases[i].in_place && shared.digests[i] != elsewhere.digests[i])
      FAIL_CHECK(cases[i].text() << ": other bits in the group's memory");
}

void table(uint32_t ranks) {
  const std::vector<Case> cases = all_cases(ranks);
  for (const auto& plugin : plugins()) {
    CAPTURE(plugin->name());
    Shared shared(cases.size(), ranks);
    CHECK_NOTHROW(expect_all_ok(
        run_group(*plugin, ranks, [&](Comm& comm) { run_table(comm, cases, shared, false); })));
    for (size_t i = 0; i < cases.size(); ++i)
      for (uint32_t r = 1; r < ranks && cases[i].same_on_all(); ++r)
        if (shared.digests[i][r] != shared.digests[i][0])
          FAIL_CHECK(cases[i].text() << ": rank " << r << " has other bits than rank 0");
    if (plugin->item().memory && ranks > 1) check_in_memory(*plugin, ranks, shared);
    CHECK(live_errors() == 0);
  }
}

}  // namespace

TEST_SUITE("table") {
  TEST_CASE("1 rank") { table(1); }
  TEST_CASE("2 ranks") { table(2); }
  TEST_CASE("3 ranks") { table(3); }
  TEST_CASE("4 ranks") { table(4); }
  TEST_CASE("7 ranks") { table(7); }
  TEST_CASE("8 ranks") { table(8); }
}
