// Cases of 8-bit products: scales of the whole, of rows and of columns, numbers that have none,
// extents that tensor cores take and those that they do not.
#include <cmath>
#include <limits>

#include "kit/dtype.hpp"
#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

using Special = std::vector<std::pair<int64_t, double>>;

std::vector<int64_t> leading(std::vector<int64_t> dims) {
  dims.pop_back();
  return dims;
}

int64_t count(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

void add_magnitude(std::vector<Case>& out, uint32_t type, const std::vector<int64_t>& dims,
                   const Special& set = {}) {
  const plait_shape x = shape(type, dims);
  for (const char* of : {"tensor", "rows", "columns"}) {
    const bool columns = of[0] == 'c';
    if (columns && dims.size() != 2) continue;
    const std::vector<int64_t> most = of[0] == 't' ? std::vector<int64_t>{}
                                      : columns    ? std::vector<int64_t>{dims[1]}
                                                   : leading(dims);
    Case c{"greatest_magnitude " + plait::Shape(x).text() + " of " + of +
               (set.empty() ? "" : " with special numbers"),
           "greatest_magnitude",
           {{x, -3, 2, set}},
           {f32(most)},
           {text("of", of)}};
    c.tolerance = 0;
    out.push_back(c);
  }
}

// The greatest magnitudes are given, so some numbers are beyond them, and saturate.
void add_quantize(std::vector<Case>& out, uint32_t type, const std::vector<int64_t>& dims,
                  const char* format, bool transpose, bool rows, const Special& set = {},
                  const Special& most_set = {}) {
  const uint32_t f8 = format[1] == '4' ? PLAIT_F8E4M3 : PLAIT_F8E5M2;
  std::vector<int64_t> q = dims;
  if (transpose) std::swap(q[0], q[1]);
  const std::vector<int64_t> scale = rows ? leading(q) : std::vector<int64_t>{};
  const plait_shape x = shape(type, dims);
  Case c{"quantize_f8 " + plait::Shape(x).text() + " " + format + (transpose ? " transposed" : "") +
             (rows ? " by rows" : "") + (set.empty() ? "" : " of special numbers"),
         "quantize_f8",
         {{x, -2, 2, set}, {f32(scale), 0.5, 2, most_set}},
         {shape(f8, q), f32(scale)},
         {text("format", format), flag("transpose", transpose)}};
  c.tolerance = 0;
  out.push_back(c);
}

struct Product {
  std::vector<int64_t> lead;
  int64_t n, k;
  uint32_t a = PLAIT_F8E4M3, b = PLAIT_F8E4M3;
  bool rows_a = false, rows_b = false;
};

// Powers of two, as quantize_f8 makes them: others would be rounded where operands are widened.
Input scales(const std::vector<int64_t>& dims, int64_t step) {
  Input in{f32(dims), 1, 1};
  for (int64_t i = 0; i < count(dims); ++i)
    in.set.emplace_back(i, std::exp2(static_cast<double>(i * step % 5 - 2)));
  return in;
}

Case product(uint32_t type, const Product& p, bool bias = false, const char* activation = "none") {
  std::vector<int64_t> a = p.lead, y = p.lead;
  a.push_back(p.k);
  y.push_back(p.n);
  const std::vector<int64_t> none;
  Case c{"matmul_f8 " + plait::Shape(shape(p.a, a)).text() + " " +
             plait::Shape(shape(p.b, {p.n, p.k})).text() + (p.rows_a ? " rows of a" : "") +
             (p.rows_b ? " rows of b" : "") + (bias ? " + bias" : "") + " " + activation +
             " into " + plait::kit::dtype_name(type),
         "matmul_f8",
         {{shape(p.a, a), -9, 9},
          {shape(p.b, {p.n, p.k}), -9, 9},
          scales(p.rows_a ? p.lead : none, 3),
          scales(p.rows_b ? std::vector<int64_t>{p.n} : none, 2)},
         {shape(type, y)},
         {flag("bias", bias), text("activation", activation)}};
  if (bias) c.inputs.push_back({f32({p.n}), -1, 1});
  c.scale = 1 + 400 * std::sqrt(static_cast<double>(p.k));
  c.tolerance = type == PLAIT_F64 ? 1 : 4e-6;  // sums may be in f32
  return c;
}

void accumulated(std::vector<Case>& out, Case c) {
  c.name += " accumulated";
  c.attrs.push_back(flag("accumulate", true));
  c.inputs.push_back({c.outputs[0], -1, 1});
  c.in_place = {4};
  c.must_alias = true;
  out.push_back(c);
}

void add_products(std::vector<Case>& out) {
  for (const int64_t m : {0, 1, 5, 16, 33})
    for (const int64_t n : {0, 1, 16, 48, 70})
      for (const int64_t k : {0, 1, 16, 33, 160})
        for (const bool rows : {false, true}) {
          Product p{{m}, n, k};
          p.rows_a = p.rows_b = rows;
          out.push_back(product(PLAIT_F32, p));
          if (n == 16) out.push_back(product(PLAIT_F32, p, true, "gelu"));
          if (n == 16) accumulated(out, product(PLAIT_F32, p));
        }
  constexpr uint32_t kE4 = PLAIT_F8E4M3, kE5 = PLAIT_F8E5M2;
  for (const auto& [a, b] : {std::pair{kE5, kE4}, std::pair{kE4, kE5}})
    for (const bool rows_a : {false, true})
      for (const bool rows_b : {false, true})
        for (const int64_t k : {20, 64}) {
          out.push_back(product(PLAIT_F32, {{32}, 48, k, a, b, rows_a, rows_b}));
          out.push_back(product(PLAIT_BF16, {{2, 16}, 32, k, a, b, rows_a, rows_b}, true, "silu"));
        }
  for (const uint32_t type : {PLAIT_F64, PLAIT_BF16, PLAIT_F16})
    for (const int64_t n : {13, 32}) {
      const Product p{{2, 3, 8}, n, 48};
      out.push_back(product(type, p));
      out.push_back(product(type, p, true, "relu"));
      accumulated(out, product(type, p));
      Product rows = p;
      rows.rows_a = rows.rows_b = true;
      out.push_back(product(type, rows));
      accumulated(out, product(type, rows));
    }
  Case nan = product(PLAIT_F32, {{16}, 16, 32, kE4, kE4, true, false});
  nan.name += ", a scale of NaN";
  nan.inputs[2].set.emplace_back(3, kNan);
  out.push_back(nan);
  out.push_back(product(PLAIT_F32, {{64}, 400, 512}));
}

}  // namespace

void add_float8_cases(std::vector<Case>& out) {
  for (const uint32_t type : {PLAIT_F32, PLAIT_F64, PLAIT_BF16, PLAIT_F16}) {
    for (const int64_t rows : {0, 1, 3, 300})
      for (const int64_t columns : {0, 1, 70, 1030}) add_magnitude(out, type, {rows, columns});
    add_magnitude(out, type, {5, 40}, {{3, kNan}, {41, -kInf}, {90, 0}});
    add_magnitude(out, type, {2, 3, 20});
    add_magnitude(out, type, {7});
  }
  for (const char* format : {"e4m3", "e5m2"}) {
    for (const int64_t rows : {0, 1, 33, 70})
      for (const int64_t columns : {0, 1, 32, 67})
        for (const bool transpose : {false, true})
          for (const bool by_rows : {false, true})
            add_quantize(out, PLAIT_F32, {rows, columns}, format, transpose, by_rows);
    for (const uint32_t type : {PLAIT_F64, PLAIT_BF16, PLAIT_F16}) {
      add_quantize(out, type, {2, 5, 1100}, format, false, true);
      add_quantize(out, type, {40, 50}, format, true, true);
    }
    // Rows of zeros, with NaN, infinite, tiny, and with a greatest number that is just too large.
    const Special x = {{3, kNan}, {12, kInf}, {25, -0.0}, {30, 1e-44}, {41, 448}, {45, 0x1p-9}};
    const Special most = {{0, kInf}, {1, kInf}, {2, 0}, {3, 1e-44}, {4, 448}, {5, 448.0001}};
    for (const bool transpose : {false, true})
      add_quantize(out, PLAIT_F32,
                   transpose ? std::vector<int64_t>{10, 6} : std::vector<int64_t>{6, 10}, format,
                   transpose, true, x, most);
    add_quantize(out, PLAIT_F32, {6, 10}, format, false, false, x, {{0, kInf}});
  }
  add_products(out);
}

}  // namespace conformance
