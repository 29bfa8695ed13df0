// Broadcasting, sizes, alignment, threads and in-place outputs.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "tests/unit/cpu_map/map_case.hpp"

namespace plait::cpu::testing {
namespace {

using Dims = std::vector<int64_t>;

// (a - b) * 3 + c, exact for the small integers used here.
Exprs three_inputs() {
  Exprs e(3);
  const uint32_t three = e.constant(3.0);
  const uint32_t d = e.op(PLAIT_MAP_SUB, 0, 1);
  e.output(e.op(PLAIT_MAP_FMA, d, three, 2));
  return e;
}

void check_shapes(const Dims& a, const Dims& b, const Dims& c, const Dims& out, int threads,
                  uint32_t dtype) {
  Tensor ta(dtype, a, 4), tb(dtype, b), tc(dtype, c, 4), ty(dtype, out, 4);
  int64_t seed = 1;
  for (Tensor* t : {&ta, &tb, &tc})
    for (int64_t i = 0; i < t->count(); ++i) t->set(i, static_cast<double>((seed += 7) % 19) - 9);
  const Exprs e = three_inputs();
  const plait_map map = e.map();
  const MapTensor in[] = {ta.desc, tb.desc, tc.desc};
  for (const std::string& kernel : kernels_for({&map, in, {&ty.desc, 1}})) {
    ty.fill({77.0});
    run_map(e, kernel, {&ta, &tb, &tc}, {&ty}, threads);
    int64_t wrong = -1;
    for (int64_t i = 0; i < ty.count() && wrong < 0; ++i) {
      const double want = (ta.get(broadcast_index(ta.desc, ty.desc, i)) -
                           tb.get(broadcast_index(tb.desc, ty.desc, i))) *
                              3 +
                          tc.get(broadcast_index(tc.desc, ty.desc, i));
      if (ty.get(i) != want) wrong = i;
    }
    CAPTURE(kernel);
    CHECK(wrong == -1);
  }
}

}  // namespace

TEST_CASE("cpu map: broadcasting table") {
  struct Row {
    Dims a, b, c, out;
  };
  const Row table[] = {
      {{}, {}, {}, {}},
      {{1}, {}, {1, 1}, {1, 1}},
      {{5, 33}, {}, {1}, {5, 33}},                     // scalars
      {{5, 33}, {33}, {5, 33}, {5, 33}},               // row
      {{5, 33}, {5, 1}, {1, 33}, {5, 33}},             // column and row
      {{3, 4, 17}, {3, 1, 17}, {4, 1}, {3, 4, 17}},    // middle
      {{3, 1, 17}, {1, 4, 1}, {3, 1, 1}, {3, 4, 17}},  // nothing is dense
      {{2, 3, 4, 5}, {3, 1, 5}, {2, 1, 4, 1}, {2, 3, 4, 5}},
      {{2, 1, 3, 1, 2, 16}, {3, 1, 2, 1}, {16}, {2, 4, 3, 2, 2, 16}},
      {{4}, {1}, {}, {2, 3, 4}},
      {{100, 3}, {3}, {100, 1}, {100, 3}},  // rows shorter than a vector
      {{7, 1}, {1, 1}, {7, 1}, {7, 1}},
      {{1, 1, 64}, {64}, {3, 1, 1}, {3, 1, 64}},
      {{0, 5}, {5}, {1}, {0, 5}},  // empty
      {{5, 0}, {5, 1}, {}, {5, 0}},
      {{1, 40000}, {2, 1}, {}, {2, 40000}},       // few long rows, cut by threads
      {{300, 100}, {100}, {300, 1}, {300, 100}},  // many rows, distributed whole
      {{7, 30, 200}, {30, 1}, {7, 1, 200}, {7, 30, 200}},
  };
  for (const Row& r : table)
    for (const int threads : {1, 2, 3})
      for (const uint32_t dtype : {PLAIT_F32, PLAIT_BF16})
        // bf16 represents the results (up to 63) exactly, too
        check_shapes(r.a, r.b, r.c, r.out, threads, dtype);
}

TEST_CASE("cpu map: every small size and the usual long ones") {
  for (int64_t n = 0; n < 70; ++n)
    for (const uint32_t dtype : {PLAIT_F32, PLAIT_F16}) {
      check_shapes({n}, {n}, {n}, {n}, 1, dtype);
      check_shapes({3, n}, {n}, {3, 1}, {3, n}, 1, dtype);
    }
  for (const int64_t n : {127, 128, 129, 1000, 1023, 1024, 1025, 4099, 70001})
    check_shapes({n}, {1}, {n}, {n}, 2, PLAIT_F32);
}

TEST_CASE("cpu map: the bits depend on neither threads nor alignment") {
  const int64_t n = 50021;
  Exprs e(2);
  const uint32_t t = e.op(PLAIT_MAP_TANH, e.op(PLAIT_MAP_MUL, 0, 1));
  e.output(e.op(PLAIT_MAP_ADD, e.op(PLAIT_MAP_EXP, t), e.op(PLAIT_MAP_LOG, 1)));
  const plait_map map = e.map();
  Tensor first(PLAIT_F32, {n});
  const MapTensor in[] = {first.desc, first.desc};
  for (const std::string& kernel : kernels_for({&map, in, {&first.desc, 1}})) {
    bool is_first = true;
    for (const int threads : {1, 2, 3})
      for (const size_t shift : {0, 4, 36}) {
        Tensor a(PLAIT_F32, {n}, shift), b(PLAIT_F32, {n}, 60 - shift), y(PLAIT_F32, {n}, shift);
        for (int64_t i = 0; i < n; ++i) {
          a.set(i, std::sin(0.1 * static_cast<double>(i)));
          b.set(i, 0.01 + std::abs(std::cos(0.3 * static_cast<double>(i))));
        }
        run_map(e, kernel, {&a, &b}, {&y}, threads);
        if (is_first) std::memcpy(first.data(), y.data(), n * 4);
        is_first = false;
        CAPTURE(kernel);
        CHECK(std::memcmp(first.data(), y.data(), n * 4) == 0);
      }
  }
}

TEST_CASE("cpu map: outputs that alias inputs") {
  // m' = (m + g)/2, p' = p - m'*s, g' = p + m: the input of each output is also read by the other
  // outputs.
  Exprs e(4);
  const uint32_t half = e.constant(0.5);
  const uint32_t m = e.op(PLAIT_MAP_MUL, e.op(PLAIT_MAP_ADD, 2, 1), half);
  const uint32_t step = e.op(PLAIT_MAP_MUL, m, 3);
  const uint32_t p = e.op(PLAIT_MAP_SUB, 0, step);
  const uint32_t g = e.op(PLAIT_MAP_ADD, 0, 2);
  for (const uint32_t r : {m, p, g}) e.output(r);
  const plait_map map = e.map();
  for (const int64_t n : {5, 33, 20000}) {
    for (const uint32_t dtype : {PLAIT_F32, PLAIT_BF16}) {
      Tensor s(PLAIT_F32, {});
      s.set(0, 2.0);
      const auto make = [&](int k) {
        Tensor t(dtype, {n});
        for (int64_t i = 0; i < n; ++i) t.set(i, static_cast<double>((i * (k + 3)) % 16));
        return t;
      };
      const Tensor tp = make(0), tg = make(1), tm = make(2);
      const MapTensor in[] = {tp.desc, tg.desc, tm.desc, s.desc},
                      out[] = {tm.desc, tp.desc, tg.desc};
      for (const std::string& kernel : kernels_for({&map, in, out})) {
        Tensor p2 = tp, g2 = tg, m2 = tm;
        run_map(e, kernel, {&p2, &g2, &m2, &s}, {&m2, &p2, &g2}, 2);
        int64_t wrong = 0;
        for (int64_t i = 0; i < n; ++i) {
          const double m_new = (tm.get(i) + tg.get(i)) / 2;
          wrong += m2.get(i) != m_new || p2.get(i) != tp.get(i) - 2 * m_new ||
                   g2.get(i) != tp.get(i) + tm.get(i);
        }
        CAPTURE(kernel);
        CHECK(wrong == 0);
      }
    }
  }
}

}  // namespace plait::cpu::testing
