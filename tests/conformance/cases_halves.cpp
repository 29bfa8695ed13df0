// Cases of split_halves and join_halves: sizes around a vector, numbers at the edges of the types,
// halfway between two bf16, and all patterns of the lower half.
#include <iterator>
#include <limits>

#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

plait_shape low_of(plait_shape s) {
  if (s.ndim == 0) s = f32({1});
  s.dtype = PLAIT_U8;
  s.dims[s.ndim - 1] *= 2;
  return s;
}
plait_shape high_of(plait_shape s) {
  s.dtype = PLAIT_BF16;
  return s;
}

Case split(const std::vector<int64_t>& dims, std::vector<std::pair<int64_t, double>> set = {}) {
  const plait_shape x = f32(dims);
  Case c{"split_halves " + plait::Shape(x).text() + (set.empty() ? "" : " of special numbers"),
         "split_halves",
         {{x, -2, 2, std::move(set)}},
         {high_of(x), low_of(x)}};
  c.tolerance = 0;
  return c;
}

Case join(const std::vector<int64_t>& dims, std::vector<std::pair<int64_t, double>> high = {}) {
  const plait_shape x = f32(dims);
  Case c{"join_halves " + plait::Shape(x).text() + (high.empty() ? "" : " of special numbers"),
         "join_halves",
         {{high_of(x), -2, 2, std::move(high)}, {low_of(x), 0, 256}},
         {x}};
  c.tolerance = 0;
  return c;
}

}  // namespace

void add_halves_cases(std::vector<Case>& out) {
  for (const int64_t n : {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 33, 1000, 70000}) {
    out.push_back(split({n}));
    out.push_back(join({n}));
  }
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {3, 5, 7}}) {
    out.push_back(split(dims));
    out.push_back(join(dims));
  }
  const double special[] = {
      0.0,          -0.0,          1.0,      0x1.01p0,  0x1.03p0,        -0x1.01p0, 0x1.00fffep0,
      0x1.010002p0, 0x1.fep127,    0x1.fep0, 0x1.ffp0,  -0x1.fffffep0,   kInf,      -kInf,
      kNan,         0x1p-149,      0x1p-133, -0x1p-134, 0x1.fffffcp-127, 0x1p-126,  0x1.fffffep127,
      -0x1.ffp127,  0x1.fefffep127};
  std::vector<std::pair<int64_t, double>> set;
  for (size_t i = 0; i < std::size(special); ++i)
    for (const int64_t at : {0, 40}) set.push_back({at + static_cast<int64_t>(i), special[i]});
  out.push_back(split({77}, set));
  // Each pattern of the lower half beside an even and an odd upper one, in a normal number and in a
  // denormal one.
  std::vector<std::pair<int64_t, double>> all;
  for (const double upper : {1.0, 0x1.02p0})
    for (int64_t low = 0; low < 65536; ++low) {
      const auto at = static_cast<int64_t>(all.size());
      all.push_back({at, upper + static_cast<double>(low) * 0x1p-23});
      all.push_back({at + 1, -(static_cast<double>(low) + (upper > 1 ? 65536 : 0)) * 0x1p-149});
    }
  out.push_back(split({static_cast<int64_t>(all.size())}, all));
  out.push_back(
      join({60}, {{0, kInf}, {17, -kInf}, {20, kNan}, {33, 0.0}, {34, -0.0}, {59, 0x1.fep127}}));
}

}  // namespace conformance
