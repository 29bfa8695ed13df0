// Every kind, type, size and placing, on groups of every size: values, equal bits on all ranks and from time to time, no write
// outside of `out`.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "plugins/support/dtype.hpp"
#include "tests/comm/cases.hpp"
#include "tests/comm/ranks.hpp"

namespace {

using namespace comm_test;
using plait::support::dtype_bytes;

constexpr size_t kGuard = 64;
constexpr unsigned char kGuardByte = 0x5c;

// Memory of one call between two guards; `in` may lie in `out` or the other way round.
class Memory {
 public:
  Memory(const Case& c, uint32_t ranks, uint32_t rank) : case_(c), ranks_(ranks), rank_(rank) {
    const uint64_t row = c.n * dtype_bytes(c.dtype);
    source_ = input(c, ranks, rank);
    out_bytes_ = out_elements(c, ranks) * dtype_bytes(c.dtype);
    const bool from_rows = c.in_place && source_.size() > out_bytes_;
    const bool to_rows = c.in_place && source_.size() < out_bytes_;
    whole_.assign(kGuard * 2 + std::max<size_t>(out_bytes_, c.in_place ? source_.size() : 0),
                  kGuardByte);
    base_ = whole_.data() + kGuard;
    out_ = base_ + (from_rows ? rank * row : 0);
    in_ = c.in_place ? base_ + (to_rows ? rank * row : 0) : nullptr;
  }
  plait_comm_desc desc() {
    return comm_test::desc(case_.kind, case_.dtype, case_.n, in_ ? in_ : source_copy_data(), out_,
                           case_.reduction, case_.root);
  }
  void fill() {
    source_copy_ = source_;
    if (!in_ || in_ != out_) std::fill_n(base_, whole_.size() - 2 * kGuard, 0xa5);
    if (in_ && !source_.empty()) std::memcpy(in_, source_.data(), source_.size());
  }
  void verify() const {
    const std::string where = case_.text() + ": ";
    const std::string wrong = fault(case_, ranks_, rank_, out_);
    require(wrong.empty(), where + wrong);
    require(in_ || source_copy_ == source_, where + "in has changed");
    const auto good = [](unsigned char c) { return c == kGuardByte; };
    require(std::all_of(whole_.begin(), whole_.begin() + kGuard, good) &&
                std::all_of(whole_.end() - kGuard, whole_.end(), good),
            where + "memory around out has changed");
  }
  Bytes result() const { return Bytes(out_, out_ + out_bytes_); }

 private:
  const void* source_copy_data() {
    if (source_copy_.size() != source_.size()) source_copy_ = source_;
    return source_copy_.data();
  }
  const Case case_;
  const uint32_t ranks_, rank_;
  Bytes source_, source_copy_, whole_;
  uint64_t out_bytes_;
  unsigned char *base_ = nullptr, *out_ = nullptr, *in_ = nullptr;
};

uint64_t digest(const Bytes& bytes) {
  uint64_t hash = 1469598103934665603u;
  for (const unsigned char b : bytes) hash = (hash ^ b) * 1099511628211u;
  return hash;
}

// All cases on one group. digests: (cases, R).
void run_table(Comm& comm, const std::vector<Case>& cases,
               std::vector<std::vector<uint64_t>>& digests) {
  for (size_t i = 0; i < cases.size(); ++i) {
    Memory memory(cases[i], comm.size(), comm.rank());
    Call call(comm, memory.desc());
    memory.fill();
    call.run();
    memory.verify();
    const Bytes first = memory.result();
    memory.fill();
    call.run();
    require(memory.result() == first, cases[i].text() + ": other bits the second time");
    digests[i][comm.rank()] = digest(first);
  }
}

void table(uint32_t ranks, uint64_t large) {
  const std::vector<Case> cases = all_cases(ranks, large);
  for (const auto& plugin : plugins()) {
    CAPTURE(plugin->name());
    std::vector<std::vector<uint64_t>> digests(cases.size(), std::vector<uint64_t>(ranks));
    CHECK_NOTHROW(expect_all_ok(
        run_group(*plugin, ranks, [&](Comm& comm) { run_table(comm, cases, digests); })));
    for (size_t i = 0; i < cases.size(); ++i) {
      const bool same = cases[i].kind == PLAIT_COMM_ALL_REDUCE ||
                        cases[i].kind == PLAIT_COMM_ALL_GATHER ||
                        cases[i].kind == PLAIT_COMM_BROADCAST;
      if (!same) continue;
      for (uint32_t r = 1; r < ranks; ++r)
        if (digests[i][r] != digests[i][0])
          FAIL_CHECK(cases[i].text() << ": rank " << r << " has other bits than rank 0");
    }
    CHECK(live_errors() == 0);
  }
}

}  // namespace

TEST_SUITE("table") {
  TEST_CASE("1 rank") { table(1, 1000000); }
  TEST_CASE("2 ranks") { table(2, 1000000); }
  TEST_CASE("3 ranks") { table(3, 300000); }
  TEST_CASE("4 ranks") { table(4, 200000); }
  TEST_CASE("7 ranks") { table(7, 100000); }
  TEST_CASE("8 ranks") { table(8, 100000); }
}
