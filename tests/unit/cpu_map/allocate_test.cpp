// Registers of generated code: the body has as many as it needs, outer values have the rest.
#include "plugins/devices/cpu/map/jit/allocate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace plait::cpu::jit {
namespace {

// The sum of x_i * c_i, of n values of each vector, all of them read first, and n of the call.
Code products(int n) {
  std::vector<Level> levels(static_cast<size_t>(n), Level::kBody);
  levels.resize(2 * levels.size(), Level::kCall);
  Builder b(Isa::kAvx512, levels);
  std::vector<Value> x, c;
  for (int i = 0; i < n; ++i) x.push_back(b.load(static_cast<uint8_t>(i)));
  for (int i = n; i < 2 * n; ++i) c.push_back(b.load(static_cast<uint8_t>(i)));
  Value sum = b.mul(x[0], c[0]);
  for (size_t i = 1; i < x.size(); ++i) sum = b.add(sum, b.mul(x[i], c[i]));
  b.store(static_cast<uint8_t>(2 * n), sum);
  return std::move(b).finish();
}

TEST_CASE("cpu map: outer values are held in registers that the body does not need") {
  for (const int n : {9, 12, 15, 16}) {
    CAPTURE(n);
    const Program p = allocate(products(n), 16);
    CHECK(p.n_spills == 0);
    CHECK(p.call_hoists.size() == static_cast<size_t>(16 - n));
    CHECK(p.row_hoists.empty());
    for (const Step& s : p.call_hoists) CHECK(s.to >= n);
  }
  CHECK(allocate(products(12), 32).call_hoists.size() == 12);  // all
  // The body has 8 in any case.
  CHECK(allocate(products(10), 8).call_hoists.empty());
  CHECK(allocate(products(10), 8).n_spills == 2);
  CHECK(allocate(products(3), 16).call_hoists.size() == 3);
  CHECK(allocate(products(9), 10).call_hoists.size() == 1);
}

// What is moved to a register for y = f(x), with 8 registers, which the body keeps for itself.
template <class F>
ptrdiff_t moves_of(const F& f) {
  const std::vector<Level> levels(1, Level::kBody);
  Builder b(Isa::kAvx512, levels);
  b.store(1, f(b, b.load(0)));
  const Program p = allocate(std::move(b).finish(), 8);
  return std::count_if(p.body.begin(), p.body.end(),
                       [](const Step& s) { return s.kind == Step::kMove; });
}

TEST_CASE("cpu map: instructions read one operand from memory, and swap operands for that") {
  CHECK(moves_of([](Builder& b, Value x) { return b.add(x, b.lit(2)); }) == 0);
  CHECK(moves_of([](Builder& b, Value x) { return b.add(b.lit(2), x); }) == 0);
  CHECK(moves_of([](Builder& b, Value x) { return b.sub(x, b.lit(2)); }) == 0);
  CHECK(moves_of([](Builder& b, Value x) { return b.sub(b.lit(2), x); }) == 1);
  CHECK(moves_of([](Builder& b, Value x) { return b.fma(x, b.lit(2), x); }) == 0);
  CHECK(moves_of([](Builder& b, Value x) { return b.fma(b.lit(2), x, x); }) == 0);
  CHECK(moves_of([](Builder& b, Value x) { return b.fnma(b.lit(2), x, x); }) == 0);
  CHECK(moves_of([](Builder& b, Value x) { return b.fma(x, x, b.lit(2)); }) == 0);
  CHECK(moves_of([](Builder& b, Value x) { return b.fma(x, b.lit(2), b.lit(3)); }) == 1);
}

// A select is a comparison and a blend: each reads one operand from memory, and zeros from none.
TEST_CASE("cpu map: a select reads an operand of each of its instructions from memory") {
  const auto moves = [](float p, float q, float r, float s) {  // NAN: x
    return moves_of([&](Builder& b, Value x) {
      const auto value = [&](float f) { return std::isnan(f) ? x : b.lit(f); };
      return b.select(kLt, value(p), value(q), value(r), value(s));
    });
  };
  CHECK(moves(NAN, 1, 2, NAN) == 0);
  CHECK(moves(1, NAN, NAN, 2) == 0);
  CHECK(moves(NAN, 1, NAN, 0) == 0);
  CHECK(moves(NAN, 1, 0, NAN) == 0);
  CHECK(moves(NAN, 1, 2, 3) == 1);
}

// Two of ten values do not fit: each is stored once, and loaded once for both of its uses.
TEST_CASE("cpu map: a value that was moved to memory and is needed again soon is loaded once") {
  const std::vector<Level> levels(10, Level::kBody);
  Builder b(Isa::kAvx512, levels);
  std::vector<Value> x;
  for (uint8_t i = 0; i < 10; ++i) x.push_back(b.load(i));
  Value y = x[0];
  for (size_t i = 1; i < x.size(); ++i) y = b.mul(b.add(y, x[i]), x[i]);
  b.store(10, y);
  const Program p = allocate(std::move(b).finish(), 8);
  const auto count = [&](Step::Kind kind) {
    return std::count_if(p.body.begin(), p.body.end(),
                         [&](const Step& s) { return s.kind == kind; });
  };
  CHECK(p.n_spills == 2);
  CHECK(count(Step::kSpill) == 2);
  CHECK(count(Step::kMove) == 2);
}

}  // namespace
}  // namespace plait::cpu::jit
