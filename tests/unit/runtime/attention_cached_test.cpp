// Attention over a cache gives what dot_product_attention over the whole sequence gives, however
// the sequence is cut into calls.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/runtime/program_runner.hpp"

using namespace plait;
using program::attr;
using program::Attrs;
using program::Graph;
using program::make_shape;
using program::ValueId;

namespace {

constexpr int64_t kSamples = 2, kTokens = 75, kHeads = 4, kGroups = 2, kQk = 16, kValue = 12;
constexpr int64_t kSlots = 3, kPlaces = 80;
const std::vector<double> kSlot{2, 0};

using Values = test::Runner::Values;

// Floats (B, tokens, heads, channels).
plait_shape rows(int64_t tokens, int64_t heads, int64_t channels) {
  return make_shape(PLAIT_F32, {kSamples, tokens, heads, channels});
}

std::vector<double> numbers(const plait_shape& s, double salt) {
  std::vector<double> v(static_cast<size_t>(program::elements(s)));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = 4 * std::fmod((static_cast<double>(i) + salt) * 0.6180339887498949, 1.0) - 2;
  return v;
}

// Tokens [first, first + n) of x (B, T, width).
std::vector<double> cut(const std::vector<double>& x, int64_t first, int64_t n) {
  const auto width = static_cast<int64_t>(x.size()) / (kSamples * kTokens);
  std::vector<double> part;
  for (int64_t b = 0; b < kSamples; ++b) {
    const auto from = x.begin() + (b * kTokens + first) * width;
    part.insert(part.end(), from, from + n * width);
  }
  return part;
}

struct Sequence {
  std::vector<double> q = numbers(rows(kTokens, kHeads, kQk), 1),
                      k = numbers(rows(kTokens, kGroups, kQk), 2),
                      v = numbers(rows(kTokens, kGroups, kValue), 3);
};

Values whole(test::Runner& runner, const Sequence& s, const Attrs& attrs) {
  return runner.run(
      {rows(kTokens, kHeads, kQk), rows(kTokens, kGroups, kQk), rows(kTokens, kGroups, kValue)},
      {s.q, s.k, s.v}, [&](Graph& g, const std::vector<ValueId>& in) {
        return std::vector{g.apply("dot_product_attention", in, attrs)[0]};
      });
}

// A program that continues sequences by n tokens. Its caches stay from one run to the next.
test::Runnable continuing(test::Runner& runner, int64_t n, const Attrs& attrs) {
  const auto cache = [](int64_t channels) {
    return make_shape(PLAIT_F32, {kSlots, kPlaces, kGroups, channels});
  };
  return runner.prepare(
      {rows(n, kHeads, kQk), rows(n, kGroups, kQk), rows(n, kGroups, kValue), cache(kQk),
       cache(kValue), make_shape(PLAIT_I32, {kSamples}), make_shape(PLAIT_I32, {kSamples, n})},
      [&](Graph& g, const std::vector<ValueId>& in) {
        const ValueId k = g.apply1("cache_write", {in[3], in[1], in[5], in[6]}),
                      v = g.apply1("cache_write", {in[4], in[2], in[5], in[6]});
        return g.apply("attention_cached", {in[0], k, v, in[5], in[6]}, attrs);
      });
}

// The greatest difference from `expected` when the sequence is fed n tokens at a time; the last
// call is filled up with tokens that have no place.
double error_of(test::Runner& runner, const Sequence& s, const Attrs& attrs, int64_t n,
                const std::vector<double>& expected) {
  test::Runnable program = continuing(runner, n, attrs);
  program.set(3, numbers(make_shape(PLAIT_F32, {kSlots, kPlaces, kGroups, kQk}), 4));
  program.set(4, numbers(make_shape(PLAIT_F32, {kSlots, kPlaces, kGroups, kValue}), 5));
  program.set(5, kSlot);
  double worst = 0;
  for (int64_t first = 0; first < kTokens; first += n) {
    const int64_t begin = std::min(first, kTokens - n);  // of the rows that are given
    std::vector<double> at;
    for (int64_t i = 0; i < kSamples * n; ++i)
      at.push_back(begin + i % n < first ? -1 : static_cast<double>(begin + i % n));
    program.set(0, cut(s.q, begin, n));
    program.set(1, cut(s.k, begin, n));
    program.set(2, cut(s.v, begin, n));
    program.set(6, at);
    const std::vector<double> found = program.run()[0], wanted = cut(expected, begin, n);
    const size_t width = kHeads * kValue;
    for (size_t i = 0; i < found.size(); ++i)
      worst = std::max(worst, std::abs(found[i] - (at[i / width] < 0 ? 0 : wanted[i])));
  }
  return worst;
}

}  // namespace

TEST_CASE("a sequence in parts gives what it gives as a whole") {
  const Sequence s;
  const auto scale = attr("scale", 0.25);
  for (const char* device : {"reference", "cpu"}) {
    CAPTURE(device);
    test::Runner runner(device);
    for (const Attrs& attrs :
         {Attrs{scale}, Attrs{scale, attr("window", int64_t{9}), attr("softcap", 2.5)}}) {
      const std::vector<double> expected = whole(runner, s, attrs)[0];
      for (const int64_t n : {1, 3, 16, 64, 75}) {
        CAPTURE(n);
        CHECK(error_of(runner, s, attrs, n, expected) < 1e-6);
      }
    }
  }
}

TEST_CASE("a write stays in the program though nobody reads its result, and a read comes behind") {
  test::Runner runner("reference");
  const plait_shape cache = make_shape(PLAIT_F32, {1, 3, 1, 2}),
                    x = make_shape(PLAIT_F32, {1, 1, 1, 2});
  const auto out = runner.run(
      {cache, x, make_shape(PLAIT_I32, {1}), make_shape(PLAIT_I32, {1, 1})},
      {{1, 2, 3, 4, 5, 6}, {7, 8}, {0}, {1}}, [](Graph& g, const std::vector<ValueId>& in) {
        const ValueId written = g.apply1("cache_write", {in[0], in[1], in[2], in[3]});
        CHECK(g.value(written).alias_of == in[0]);
        return std::vector{g.apply1("copy", {written})};
      });
  CHECK(out[0] == std::vector<double>{1, 2, 7, 8, 5, 6});
  test::Runnable unread =
      runner.prepare({cache, x, make_shape(PLAIT_I32, {1}), make_shape(PLAIT_I32, {1, 1})},
                     [](Graph& g, const std::vector<ValueId>& in) {
                       g.apply1("cache_write", {in[0], in[1], in[2], in[3]});
                       return std::vector<ValueId>{};
                     });
  CHECK(unread.program().calls.size() == 1);
}
