// How a product is divided: into tiles that fit the registers, blocks that fit the first cache, and
// threads that repay their start. Plans and the costs behind them are pure functions, also of
// instruction sets that this machine does not have.
#include "plugins/devices/cpu/matmul/plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

#include "plugins/devices/cpu/matmul/cost.hpp"
#include "plugins/devices/cpu/matmul/isa.hpp"

namespace plait::cpu {
namespace {

constexpr Isa kBoth[] = {Isa::avx2, Isa::avx512};

struct Sizes {
  int64_t m, n, k;
};
MatmulDesc desc_of(const Sizes& s, int threads = 1, bool transpose_a = false,
                   bool transpose_b = false) {
  MatmulDesc d;
  d.m = s.m, d.n = s.n, d.k = s.k;
  d.transpose_a = transpose_a, d.transpose_b = transpose_b;
  d.threads = threads;
  return d;
}

// How many lines, one after the other, the cache keeps: 64 sets, of which the plans use 7 ways.
int64_t lines_in_sets(int64_t distance) {
  std::map<int64_t, int> ways;
  for (int64_t n = 0;; ++n)
    if (++ways[n * distance / 64 % 64] > 7) return n;
}

}  // namespace

TEST_CASE("a tile has as many rows as the registers hold, and no more") {
  for (const Isa isa : kBoth)
    for (int vecs = 1; vecs <= max_vecs(isa); ++vecs) {
      CAPTURE(vecs);
      // The sums, the vectors of Q, a broadcast element of P; AVX2 has masks in a register, too.
      const auto needs = [&](int rows) {
        return rows * vecs + vecs + (isa == Isa::avx512 ? 1 : 2);
      };
      const int rows = max_rows(isa, vecs);
      CHECK(rows >= 2);
      CHECK(needs(rows) <= registers_of(isa));
      CHECK(needs(rows + 1) > registers_of(isa));
    }
  CHECK(max_vecs(Isa::avx512) == 7);
  CHECK(max_vecs(Isa::avx2) == 4);
}

TEST_CASE("lines that lie a power of two apart share few sets of a cache") {
  for (const int64_t lines : {1, 2, 3, 4, 6, 8, 16, 24, 32, 40, 64, 96, 128, 4096}) {
    CAPTURE(lines);
    CHECK(lines_kept(64 * lines) == lines_in_sets(64 * lines));
  }
  CHECK(lines_kept(4096) == 7);
  CHECK(lines_kept(68) == 448);  // not aligned: all sets
  CHECK(lines_kept(4100) == 448);
}

TEST_CASE("a panel of Q leaves room in the first-level cache") {
  for (const Isa isa : kBoth)
    for (int vecs = 1; vecs <= max_vecs(isa); ++vecs) {
      CAPTURE(vecs);
      const int64_t row = vecs * lanes_of(isa) * 4, most = 28 * 1024, k = k_limit(isa, vecs, 0);
      CHECK(k * row <= most);
      CHECK((k + 1) * row > most);
      // Rows that are not packed have lines of their own, which share the sets.
      const int64_t lines = row < 64 ? 1 : row / 64;
      CHECK(k_limit(isa, vecs, 68) == (k < 448 / lines ? k : 448 / lines));
      CHECK(k_limit(isa, vecs, 1024) == 28);
      CHECK(k_limit(isa, vecs, 4096) == 16);  // never shorter
    }
}

TEST_CASE("the cost of a tile, by what limits it") {
  using doctest::Approx;
  // Of a step: products at two a cycle, loads at two, a chain of sums that waits 4 cycles.
  CHECK(tile_cycles(Isa::avx512, 1, 1, 10, {}) == Approx(10 * (4 + 0.1) + 12 + 1.5 + 4));
  CHECK(tile_cycles(Isa::avx512, 14, 1, 1, {}) == Approx(7.5 + 0.75 + 12 + 21 + 56));
  CHECK(tile_cycles(Isa::avx512, 12, 2, 100, {}) == Approx(100 * (12 + 0.7) + 12 + 36 + 48));
  CHECK(tile_cycles(Isa::avx2, 2, 4, 10, {2, 0.4}) == Approx(10 * (5 + 0.5 + 1.6) + 12 + 8 + 8));
  for (const Isa isa : kBoth) {
    CHECK(pack_cycles(isa, false) < pack_cycles(isa, true));
    CHECK(tile_cycles(isa, 2, 2, 64, {2, 0}) >= tile_cycles(isa, 2, 2, 64, {1, 0}));
    CHECK(tile_cycles(isa, 2, 2, 64, {1, 0.4}) > tile_cycles(isa, 2, 2, 64, {1, 0}));
  }
  // Of a float, a wide vector costs less.
  CHECK(pack_cycles(Isa::avx512, true) / 16 < pack_cycles(Isa::avx2, true) / 8);
}

TEST_CASE("tiles, panels and blocks cover a product, and are the same for any number of threads") {
  for (const Isa isa : kBoth)
    for (const Sizes s : {Sizes{1, 1, 1},
                          {7, 9, 5},
                          {16, 16, 16},
                          {33, 65, 129},
                          {300, 31, 1000},
                          {5, 2048, 700},
                          {512, 512, 512}})
      for (const bool transpose_b : {false, true}) {
        CAPTURE(s.m);
        CAPTURE(s.n);
        CAPTURE(transpose_b);
        const JitPlan plan = plan_jit(desc_of(s, 1, false, transpose_b), isa);
        REQUIRE(plan.refusal == "");
        CHECK(plan.threads == 1);
        CHECK(plan.cycles == plan.cycles_alone);
        CHECK(plan.rows == (plan.transposed ? s.n : s.m));
        int64_t lanes = 0;
        for (const PanelKind& kind : plan.kinds) {
          const Panel& p = kind.first;
          lanes += kind.count * p.lanes;
          CHECK(p.rows_hi * p.tiles_hi + p.rows_lo * p.tiles_lo == plan.rows);
          CHECK((p.tiles_hi == 0 || p.rows_hi == p.rows_lo + 1));
          CHECK(p.rows_hi <= max_rows(isa, p.vecs));
          CHECK(p.lanes > (p.vecs - 1) * lanes_of(isa));
          CHECK(p.lanes <= p.vecs * lanes_of(isa));
        }
        CHECK(lanes == (plan.transposed ? s.m : s.n));
        int64_t k = 0;
        for (const KBlock& block : plan.k_blocks) {
          CHECK(block.first == k);
          k += block.size;
          CHECK((block.size % 16 == 0 || k == s.k));
          for (const PanelKind& kind : plan.kinds)
            CHECK(block.size <= std::max<int64_t>(k_limit(isa, kind.first.vecs, 0), 64) + 15);
        }
        CHECK(k == s.k);
        double cycles = plan.cycles;
        for (int threads = 2; threads <= 9; ++threads) {
          const JitPlan many = plan_jit(desc_of(s, threads, false, transpose_b), isa);
          CHECK(many.threads <= threads);
          CHECK(many.cycles <= cycles);
          CHECK((many.cycles < plan.cycles) == (many.threads > 1));
          CHECK(many.cycles_alone == plan.cycles_alone);
          CHECK(many.transposed == plan.transposed);
          REQUIRE(many.kinds.size() == plan.kinds.size());
          for (size_t i = 0; i < many.kinds.size(); ++i) {
            CHECK(many.kinds[i].first.vecs == plan.kinds[i].first.vecs);
            CHECK(many.kinds[i].first.rows_lo == plan.kinds[i].first.rows_lo);
          }
          cycles = many.cycles;
        }
      }
}

TEST_CASE("threads repay their start, and divide the longer side") {
  for (const Isa isa : kBoth) {
    CHECK(plan_jit(desc_of({16, 16, 16}, 16), isa).threads == 1);
    CHECK(plan_jit(desc_of({64, 64, 64}, 16), isa).threads == 1);  // 20,000 cycles to start
    for (const int threads : {2, 4}) {
      CHECK(plan_jit(desc_of({512, 512, 512}, threads), isa).threads == threads);
      const JitPlan tall = plan_jit(desc_of({4096, 16, 512}, threads), isa),
                    wide = plan_jit(desc_of({6, 4096, 512}, threads), isa);
      CHECK(tall.threads == threads);
      CHECK(tall.row_splits == threads);
      CHECK(wide.threads == threads);
      CHECK(wide.row_splits == 1);
    }
    MatmulDesc batch = desc_of({32, 32, 32}, 4);
    CHECK(plan_jit(batch, isa).threads == 1);
    batch.batch = 64;
    CHECK(plan_jit(batch, isa).threads == 4);
    CHECK(plan_jit(batch, isa).row_splits == 1);
  }
}

TEST_CASE(
    "the smaller operand is turned, and one is copied where its rows would fight for a cache") {
  for (const Isa isa : kBoth) {
    const JitPlan few = plan_jit(desc_of({16, 2048, 512}, 1, false, true), isa);
    CHECK(few.transposed);  // A, of 16 rows, in place of B
    CHECK(few.packing == Packing::transpose);
    CHECK(few.scratch_floats >= 2048 * lanes_of(isa));
    const JitPlan many = plan_jit(desc_of({2048, 16, 256}), isa);
    CHECK_FALSE(many.transposed);
    CHECK(many.packing == Packing::none);
    CHECK(many.pack_floats == 0);
    CHECK(many.scratch_floats == 0);
    // Rows of 16 KiB: 7 of them have lines in the cache.
    CHECK(plan_jit(desc_of({4, 4096, 512}), isa).packing == Packing::none);
    const JitPlan copied = plan_jit(desc_of({512, 4096, 512}), isa);
    CHECK_FALSE(copied.transposed);
    CHECK(copied.packing == Packing::copy);
    CHECK(copied.pack_floats > 0);
    CHECK(copied.workspace_bytes() == copied.pack_floats * 4);
  }
}

TEST_CASE("products that no generated code computes are refused with the reason") {
  const auto refusal = [](const Sizes& s) { return plan_jit(desc_of(s), Isa::avx2).refusal; };
  for (const Sizes& s : {Sizes{0, 3, 4}, {3, 0, 4}}) CHECK(refusal(s) == "the result is empty");
  MatmulDesc none = desc_of({3, 3, 3});
  none.batch = 0;
  CHECK(jit_refusal(none) == "the result is empty");
  CHECK(refusal({3, 4, 0}) == "nothing is summed");
  constexpr int64_t kMost = int64_t{1} << 22;  // of 64 rows, so many floats are 2^30 bytes
  const std::string too_far = "a stride exceeds an address displacement";
  for (const Sizes& s : {Sizes{kMost, 1, 1}, {1, kMost, 1}, {1, 1, kMost}})
    CHECK(jit_refusal(desc_of(s)) == "");
  for (const Sizes& s : {Sizes{kMost + 1, 1, 1}, {1, kMost + 1, 1}, {1, 1, kMost + 1}})
    CHECK(jit_refusal(desc_of(s)) == too_far);
}

// The limits were measured (tests/bench/cpu/matmul_bench.cpp); whether operands fit a cache depends
// on the machine.
TEST_CASE("the kernel of a product, by its size") {
  if (machine_isa() < Isa::avx2) return;
  const auto kernel = [](const Sizes& s, bool transpose_b = false) {
    const KernelChoice found = choose_matmul(desc_of(s, 1, false, transpose_b), Isa::avx2);
    CAPTURE(found.why);
    return std::string(found.kernel);
  };
  constexpr int64_t kFar = 8192;  // a matrix of 256 MiB is in no second-level cache
  CHECK(kernel({64, 64, 64}) == "jit_avx2");
  CHECK(kernel({kFar, kFar, kFar}) == "jit_avx2_blocked");
  CHECK(kernel({kFar, 256, kFar}) == "jit_avx2_blocked");
  CHECK(kernel({kFar, 255, kFar}) == "onednn");
  CHECK(kernel({kFar, 12, kFar}) == "onednn");
  CHECK(kernel({kFar, 11, kFar}) == "jit_avx2");
  CHECK(kernel({12, kFar, kFar}) == "jit_avx2_blocked");
  CHECK(kernel({11, kFar, kFar}) == "jit_avx2");
  CHECK(kernel({96, kFar, kFar}, true) == "jit_avx2_blocked");
  CHECK(kernel({95, kFar, kFar}, true) == "jit_avx2");
  CHECK(kernel({4, kFar, 128}, true) == "stream_avx2");
  CHECK(kernel({4, kFar, 127}, true) != "stream_avx2");
  CHECK(choose_matmul(desc_of({64, 64, 64}), Isa::plain).kernel == "plain");
}

}  // namespace plait::cpu
