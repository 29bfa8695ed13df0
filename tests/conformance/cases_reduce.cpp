// Cases of reduce: every pattern of axes, long and tall sums, special numbers.
#include <cmath>
#include <limits>

#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

Case reduce(uint32_t type, const char* kind, std::vector<int64_t> dims, std::vector<int64_t> axes,
            bool keep) {
  std::vector<int64_t> to;
  double summed = 1;
  for (size_t i = 0, next = 0; i < dims.size(); ++i) {
    const bool reduced = next < axes.size() && axes[next] == static_cast<int64_t>(i);
    if (reduced) ++next, summed *= static_cast<double>(dims[i]);
    if (!reduced)
      to.push_back(dims[i]);
    else if (keep)
      to.push_back(1);
  }
  const plait_shape x = shape(type, dims), y = shape(type, to);
  Case c{std::string("reduce ") + kind + " " + plait::Shape(x).text() + " to " +
             plait::Shape(y).text(),
         "reduce",
         {{x, -1, 1.5}},
         {y},
         {text("kind", kind), list("axes", axes), flag("keep", keep)}};
  c.scale = 1 + std::sqrt(summed);
  return c;
}

}  // namespace

void add_reduce_cases(std::vector<Case>& out) {
  const auto add = [&](std::vector<int64_t> dims, std::vector<int64_t> axes) {
    for (const char* kind : {"sum", "max", "sum_squares"})
      out.push_back(reduce(PLAIT_F32, kind, dims, axes, axes.size() % 2));
  };
  for (int64_t n : {0, 1, 7, 16, 17, 33, 1000}) {
    add({n}, {0});
    add({5, n}, {1});
    add({5, n}, {0});
    add({n, 6}, {0});
    add({n, 6}, {1});
  }
  for (int64_t c : {10, 84, 120, 129, 250, 784}) add({32, c}, {0});
  add({}, {});
  add({3, 4}, {});
  add({1, 1}, {0, 1});
  add({32, 1}, {0});
  add({4, 9, 35}, {1});
  add({4, 9, 35}, {0, 2});
  add({4, 9, 35}, {0, 1, 2});
  add({3, 4, 5, 6}, {1, 2});
  add({3, 4, 5, 6}, {0, 2});
  add({2, 3, 4, 3, 2}, {1, 3});
  add({70001}, {0});  // split into partial sums
  add({3, 40000}, {1});
  add({2000, 37}, {0});  // split into row blocks
  add({2, 1500, 70}, {1});
  add({3, 5, 33000}, {0, 2});  // both passes
  for (uint32_t type : {PLAIT_F64, PLAIT_BF16, PLAIT_F16})
    for (const char* kind : {"sum", "max", "sum_squares"}) {
      out.push_back(reduce(type, kind, {6, 33}, {1}, true));
      out.push_back(reduce(type, kind, {6, 33}, {0}, false));
      out.push_back(reduce(type, kind, {100, 64}, {1}, true));  // whole vectors
      out.push_back(reduce(type, kind, {100, 64}, {0}, false));
      if (type == PLAIT_F64) continue;
      Case c = reduce(type, kind, {60, 33}, {0}, false);  // as the engine writes it
      c.name += " into f32";
      c.outputs[0].dtype = PLAIT_F32;
      out.push_back(c);
    }
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInf = std::numeric_limits<double>::infinity();
  for (const char* kind : {"sum", "max", "sum_squares"})
    for (int64_t axis : {0, 1}) {
      Case c = reduce(PLAIT_F32, kind, {40, 41}, {axis}, true);
      c.name += " of special numbers";
      c.inputs[0].set = {{0, kNan},   {43, kInf},  {83, -kInf}, {84, kInf},
                         {200, kNan}, {201, kInf}, {1639, kNan}};
      out.push_back(c);
    }
}

}  // namespace conformance
