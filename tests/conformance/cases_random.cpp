// Cases of random: sizes around a block, counters of one and two words, large steps, seeds and
// streams.
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
}

}  // namespace conformance
