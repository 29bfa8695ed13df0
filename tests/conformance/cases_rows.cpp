// Cases of the ops that work row by row: softmax family, cross-entropy, norms. R rows, C channels.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

struct Size {
  int64_t rows, cols;
};
// Empty, single, below, equal to and above one vector, several vectors, and the size of a
// vocabulary.
constexpr Size kSizes[] = {{0, 5},  {3, 0},   {1, 1},  {7, 1},   {5, 7},    {32, 10},  {17, 16},
                           {4, 17}, {33, 33}, {3, 84}, {9, 120}, {2, 1000}, {130, 64}, {3, 50257}};
// On both sides of the lengths up to which a GPU keeps a row in the registers of a warp or a block,
// and rows that begin amid 16 bytes.
constexpr Size kLongRows[] = {{3, 1023}, {2, 1025}, {41, 2048}, {2, 4096}, {2, 8191}, {2, 8193}};
constexpr Size kLongRowsOf16Bits[] = {{9, 64}, {3, 1027}, {3, 2056}, {2, 4096}, {2, 8195}};

std::string named(const std::string& op, const plait_shape& s) {
  return op + " " + plait::Shape(s).text();
}

void add_softmax(std::vector<Case>& out, uint32_t type, Size s) {
  const plait_shape x = shape(type, {s.rows, s.cols});
  for (const char* op : {"softmax", "log_softmax"}) {
    Case c{named(op, x), op, {{x, -6, 6}}, {x}};
    c.tolerance = op == std::string("softmax") ? 3e-6 : 8e-6;
    c.in_place = {0};
    out.push_back(c);
  }
  const Input y{x, 0, 2.0 / static_cast<double>(s.cols + 1)}, log_y{x, -8, -1}, dy{x, -1, 1};
  const double scale = 1 + std::sqrt(static_cast<double>(s.cols));
  out.push_back({named("softmax_grad", x), "softmax_grad", {y, dy}, {x}});
  out.push_back(
      {named("log_softmax_grad", x), "log_softmax_grad", {log_y, dy}, {x}, {}, {}, 4e-6, scale});
}

void add_cross_entropy(std::vector<Case>& out, uint32_t type, Size s, uint32_t label_type,
                       double smoothing) {
  const plait_shape x = shape(type, {s.rows, s.cols}), rows = f32({s.rows});
  Input label{shape(label_type, {s.rows}), 0, static_cast<double>(std::min<int64_t>(s.cols, 250))};
  if (s.cols == 0) return;  // no class, no label
  const std::vector<Attr> attrs = {real("label_smoothing", smoothing)};
  out.push_back({named("cross_entropy", x),
                 "cross_entropy",
                 {{x, -6, 6}, label},
                 {rows, rows},
                 attrs,
                 {},
                 4e-6,
                 8});
  const Input lse{rows, 6, 12}, dloss{rows, -1, 1};
  out.push_back({named("cross_entropy_grad", x),
                 "cross_entropy_grad",
                 {{x, -6, 6}, label, lse, dloss},
                 {x},
                 attrs});
  out.back().in_place = {0};
}

// One shard of the classes: ids before, inside and after it, ignored and invalid ones, and padding
// columns.
void add_parts(std::vector<Case>& out, uint32_t type, Size s, int64_t first, int64_t total) {
  const plait_shape x = shape(type, {s.rows, s.cols}), rows = f32({s.rows});
  const Input label{shape(PLAIT_I32, {s.rows}),
                    0,
                    static_cast<double>(total),
                    {{0, -1}, {1, static_cast<double>(total)}}};
  for (const double smoothing : {0.0, 0.1}) {
    const std::vector<Attr> attrs = {real("label_smoothing", smoothing), number("first", first),
                                     number("total", total)};
    out.push_back({named("cross_entropy of a part", x),
                   "cross_entropy",
                   {{x, -6, 6}, label},
                   {rows, rows},
                   attrs,
                   {},
                   4e-6,
                   8});
    out.push_back({named("cross_entropy_grad of a part", x),
                   "cross_entropy_grad",
                   {{x, -6, 6}, label, {rows, 6, 12}, {rows, -1, 1}},
                   {x},
                   attrs});
    out.back().in_place = {0};
  }
}

void add_mixed_norms(std::vector<Case>& out, uint32_t type);

void add_norms(std::vector<Case>& out, uint32_t type, Size s) {
  const plait_shape x = shape(type, {s.rows, s.cols}), c = shape(type, {s.cols}), r = f32({s.rows});
  if (s.cols == 0) return;  // the mean of an empty row is undefined
  const std::vector<Attr> eps = {real("eps", 1e-5)};
  const Input in{x, -2, 3}, dy{x, -1, 1}, gain{c, 0.5, 1.5}, bias{c, -1, 1}, mean{r, -0.5, 0.5},
      rstd{r, 0.5, 2};
  // rstd grows with 1/x if a row is nearly constant, and its error with it.
  const double tolerance = s.cols < 8 ? 2e-4 : 2e-5,
               sums = 1 + std::sqrt(static_cast<double>(s.rows));
  out.push_back(
      {named("layer_norm", x), "layer_norm", {in, gain, bias}, {x, r, r}, eps, {}, tolerance});
  out.push_back({named("rms_norm", x), "rms_norm", {in, gain}, {x, r}, eps, {}, tolerance});
  out.push_back({named("layer_norm_grad", x),
                 "layer_norm_grad",
                 {in, gain, mean, rstd, dy},
                 {x, c, c},
                 {},
                 {},
                 1e-5,
                 2 * sums});
  out.push_back({named("rms_norm_grad", x),
                 "rms_norm_grad",
                 {in, gain, rstd, dy},
                 {x, c},
                 {},
                 {},
                 1e-5,
                 2 * sums});
}

void add_special_rows(std::vector<Case>& out) {
  // One row each with NaN, +inf, -inf, and only -inf; and rows of large and small numbers.
  const plait_shape x = f32({6, 19});
  Input in{x,
           -3,
           3,
           {{3, kNan}, {19 + 18, kInf}, {2 * 19, -kInf}, {4 * 19 + 1, 3e38}, {5 * 19 + 7, -3e38}}};
  for (int i = 0; i < 19; ++i) in.set.push_back({3 * 19 + i, -kInf});
  for (const char* op : {"softmax", "log_softmax"})
    out.push_back({std::string(op) + " of special numbers", op, {in}, {x}});
  const Input label{shape(PLAIT_I32, {6}), 0, 19};
  out.push_back(
      {"cross_entropy of special numbers", "cross_entropy", {in, label}, {f32({6}), f32({6})}});
  // All classes of this part are impossible in the first and the fourth row; another part has some.
  Input impossible{x, -3, 3};
  for (int i = 0; i < 19; ++i)
    for (const int row : {0, 3}) impossible.set.push_back({row * 19 + i, -kInf});
  out.push_back({"cross_entropy of a part without a possible class",
                 "cross_entropy",
                 {impossible, {shape(PLAIT_I32, {6}), 19, 38}},
                 {f32({6}), f32({6})},
                 {number("first", 0), number("total", 38)}});
  // Ignored, the last class, one past it, far past it, and a word whose low half looks valid.
  const Input odd{shape(PLAIT_I64, {6}),
                  0,
                  1,
                  {{0, -1}, {1, 18}, {2, 19}, {3, 1e15}, {4, 4294967296.0}, {5, -9e15}}};
  const Input plain{x, -3, 3}, rows{f32({6}), 3, 5};
  out.push_back({"cross_entropy of odd labels",
                 "cross_entropy",
                 {plain, odd},
                 {f32({6}), f32({6})},
                 {real("label_smoothing", 0.1)},
                 {},
                 4e-6,
                 8});
  out.push_back({"cross_entropy_grad of odd labels",
                 "cross_entropy_grad",
                 {plain, odd, rows, rows},
                 {x},
                 {},
                 {},
                 4e-6,
                 8});
  out.back().in_place = {0};
  const Input constant{f32({3, 33}), 5, 5}, gain{f32({33}), 1, 2}, bias{f32({33}), 0, 1};
  out.push_back({"layer_norm of equal numbers",
                 "layer_norm",
                 {constant, gain, bias},
                 {f32({3, 33}), f32({3}), f32({3})}});
  const Input broken{f32({3, 33}), -1, 1, {{0, kNan}, {40, kInf}}};
  out.push_back({"layer_norm of special numbers",
                 "layer_norm",
                 {broken, gain, bias},
                 {f32({3, 33}), f32({3}), f32({3})},
                 {},
                 {},
                 2e-5});
  out.push_back({"rms_norm of special numbers",
                 "rms_norm",
                 {broken, gain},
                 {f32({3, 33}), f32({3})},
                 {},
                 {},
                 2e-5});
}

// f32 rows become 16-bit ones, and 16-bit gradients f32 ones; gains and biases are f32.
void add_mixed_norms(std::vector<Case>& out, uint32_t type) {
  for (const Size s : {Size{5, 33}, Size{100, 257}, Size{20, 264}, Size{2, 4104}}) {
    const auto first = static_cast<std::ptrdiff_t>(out.size());
    add_norms(out, PLAIT_F32, s);
    std::for_each(out.begin() + first, out.end(), [&](Case& c) {
      c.name += " with 16 bits";
      const bool grad = c.op.ends_with("_grad");
      (grad ? c.inputs.back().shape : c.outputs[0]).dtype = type;
    });
  }
}

}  // namespace

void add_row_cases(std::vector<Case>& out) {
  for (const Size s : kSizes) {
    add_softmax(out, PLAIT_F32, s);
    add_norms(out, PLAIT_F32, s);
    add_cross_entropy(out, PLAIT_F32, s, PLAIT_I32, 0);
    if (s.rows > 1 && s.cols > 0) {
      add_parts(out, PLAIT_F32, s, 0, 3 * s.cols);
      add_parts(out, PLAIT_F32, s, s.cols, 2 * s.cols);
      add_parts(out, PLAIT_F32, s, s.cols, 2 * s.cols - 1);
      add_parts(out, PLAIT_F32, s, 2 * s.cols, 2 * s.cols);
    }
  }
  for (const uint32_t label : {PLAIT_U8, PLAIT_I32, PLAIT_I64})
    for (const double smoothing : {0.0, 0.1})
      add_cross_entropy(out, PLAIT_F32, {70, 10}, label, smoothing);
  for (const uint32_t type : {PLAIT_F64, PLAIT_BF16, PLAIT_F16}) {
    add_softmax(out, type, {5, 33});
    add_norms(out, type, {5, 33});
    add_cross_entropy(out, type, {5, 33}, PLAIT_I64, 0.1);
  }
  for (const Size s : kLongRows) {
    add_softmax(out, PLAIT_F32, s);
    add_norms(out, PLAIT_F32, s);
    add_cross_entropy(out, PLAIT_F32, s, PLAIT_I32, 0.1);
  }
  for (const uint32_t type : {PLAIT_BF16, PLAIT_F16}) {
    add_mixed_norms(out, type);
    for (const Size s : kLongRowsOf16Bits) {
      add_softmax(out, type, s);
      add_norms(out, type, s);
      add_cross_entropy(out, type, s, PLAIT_I32, 0);
    }
    add_cross_entropy(out, type, {41, 2048}, PLAIT_U8,
                      0.1);  // for several threads, a few rows each
  }
  const plait_shape deep = f32({2, 3, 4, 5});
  out.push_back({"softmax of four dims", "softmax", {{deep}}, {deep}});
  const plait_shape flat = f32({9});
  out.push_back({"softmax of one dim", "softmax", {{flat}}, {flat}});
  add_special_rows(out);
}

}  // namespace conformance
