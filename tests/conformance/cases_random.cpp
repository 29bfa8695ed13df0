// Cases of random and round_stochastic: sizes around a block, counters of one and two words, large
// steps, seeds and streams, parts of a whole.
#include <iterator>
#include <limits>

#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

Case random(const char* kind, uint32_t type, std::vector<int64_t> dims, std::vector<double> counter,
            int64_t seed, int64_t stream) {
  const plait_shape y = shape(type, dims);
  Input in{
      shape(PLAIT_I64, counter.size() == 1 ? std::vector<int64_t>() : std::vector<int64_t>{2})};
  for (size_t i = 0; i < counter.size(); ++i)
    in.set.push_back({static_cast<int64_t>(i), counter[i]});
  const bool normal = std::string(kind) == "normal";
  return {std::string("random ") + kind + " " + plait::Shape(y).text(),
          "random",
          {in},
          {y},
          {text("kind", kind), number("seed", seed), number("stream", stream), list("shape", dims)},
          {},
          normal ? 1e-6 : 0.0};
}

// The range [first, first + dims[axis]) of an axis with `total` indices.
Case part(const char* kind, std::vector<int64_t> dims, int64_t axis, int64_t first, int64_t total) {
  Case c = random(kind, PLAIT_F32, std::move(dims), {5, 6}, 42, 1);
  c.name += " part";
  for (const Attr& a : {number("axis", axis), number("first", first), number("total", total)})
    c.attrs.push_back(a);
  return c;
}

// Numbers of all sizes, and those that rounding must leave alone.
Case rounding(std::vector<int64_t> dims, uint32_t step_type, double step,
              std::vector<Attr> attrs = {}) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const plait_shape y = shape(PLAIT_BF16, dims);
  Input x{f32(dims)};
  const double special[] = {std::numeric_limits<double>::quiet_NaN(),
                            kInf,
                            -kInf,
                            0,
                            -0.0,
                            0x1.fffffep127,
                            -0x1.ff8p127,
                            0x1p-149,
                            -0x1p-133,
                            0x1.00fffep0,
                            0x1.fep127};
  const int64_t n = static_cast<int64_t>(bytes_of(y) / 2);
  for (int64_t i = 0; i < static_cast<int64_t>(std::size(special)); ++i)
    if (n > 40) x.set.emplace_back(3 * i, special[i]);
  Input counter{shape(step_type, {})};
  counter.set.emplace_back(0, step);
  return {"round_stochastic " + plait::Shape(y).text(),
          "round_stochastic",
          {x, counter},
          {y},
          std::move(attrs),
          {},
          0};
}

void add_rounding_cases(std::vector<Case>& out) {
  for (int64_t n : {0, 1, 7, 8, 9, 33, 41, 511, 512, 513, 5000, 40000})
    out.push_back(rounding({n}, PLAIT_F64, 7, {number("seed", 42), number("stream", 1)}));
  out.push_back(rounding({}, PLAIT_F32, 1));
  out.push_back(rounding({3, 50, 7}, PLAIT_F64, 5e9,
                         {number("seed", -1), number("stream", 0x123456789abcdef0)}));
  const auto part = [&](std::vector<int64_t> dims, int64_t first, int64_t run, int64_t stride,
                        int64_t begin) {
    out.push_back(rounding(dims, PLAIT_F64, 3,
                           {number("first", first), number("run", run), number("stride", stride),
                            number("begin", begin)}));
  };
  part({60}, 13, 0, 0, 0);
  part({600}, (1LL << 35) + 5, 0, 0, 3);
  part({50, 5}, 5, 5, 20, 0);
  part({50, 16}, 16, 16, 32, 0);
  part({999}, 700, 700, 2100, 333);
  part({70000}, 1, 3, 5, 1);
}

}  // namespace

void add_random_cases(std::vector<Case>& out) {
  for (const char* kind : {"uniform", "normal"}) {
    for (int64_t n : {0, 1, 3, 4, 5, 7, 33, 255, 256, 257, 5000})
      out.push_back(random(kind, PLAIT_F32, {n}, {7}, 42, 1));
    out.push_back(random(kind, PLAIT_F32, {3, 5, 7}, {0, 0}, -1, 0x123456789abcdef0));
    out.push_back(random(kind, PLAIT_F32, {6, 300}, {5e9, 1000}, 1LL << 40, -5));
    out.push_back(random(kind, PLAIT_F32, {300, 400}, {1, 2}, 3, 4));
    out.push_back(random(kind, PLAIT_F32, {}, {1, 2}, 3, 4));
    out.push_back(part(kind, {3, 5}, 0, 4, 9));
    out.push_back(part(kind, {3, 5}, 1, 3, 8));
    out.push_back(part(kind, {2, 3, 300}, 1, 2, 6));
    out.push_back(part(kind, {2, 3, 257}, 2, 129, 600));
    Case half = random(kind, PLAIT_BF16, {33}, {1}, 3, 4);
    half.tolerance = 4e-6;
    out.push_back(half);
  }
  add_rounding_cases(out);
}

}  // namespace conformance
