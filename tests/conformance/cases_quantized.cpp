// Cases of weights of 8 bits: blocks that are whole and that are not, numbers that have no scale,
// few rows and many.
#include <cmath>
#include <limits>

#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

int64_t blocks(int64_t columns) { return (columns + 31) / 32; }

void add_quantize(std::vector<Case>& out, int64_t rows, int64_t columns, uint32_t type = PLAIT_F32,
                  std::vector<std::pair<int64_t, double>> set = {}) {
  const plait_shape x = shape(type, {rows, columns}), q = shape(PLAIT_U8, {rows, columns}),
                    s = f32({rows, blocks(columns)});
  Case c{"quantize " + plait::Shape(x).text() + (set.empty() ? "" : " of special numbers"),
         "quantize",
         {{x, -2, 2, std::move(set)}},
         {q, s}};
  c.tolerance = 0;
  out.push_back(c);
}

struct Product {
  std::vector<int64_t> lead;
  int64_t n, k;
};

Case product(uint32_t type, const Product& p, bool bias = false, const char* activation = "none") {
  std::vector<int64_t> rows = p.lead, results = p.lead;
  rows.push_back(p.k);
  results.push_back(p.n);
  const plait_shape a = shape(type, rows), q = shape(PLAIT_U8, {p.n, p.k}),
                    s = f32({p.n, blocks(p.k)});
  Case c{"matmul_quantized " + plait::Shape(a).text() + " " + plait::Shape(q).text() +
             (bias ? " + bias" : "") + " " + activation,
         "matmul_quantized",
         {{a, -1, 1}, {q, 1, 256}, {s, 0, 0.02}},
         {shape(type, results)},
         {flag("bias", bias), text("activation", activation)}};
  if (bias) c.inputs.push_back({f32({p.n}), -1, 1});
  c.scale = 1 + std::sqrt(static_cast<double>(p.k));
  int64_t m = 1;
  for (const int64_t extent : p.lead) m *= extent;
  c.tolerance = m <= 3 ? 6e-5 : 1e-5;  // a few rows may be rounded to 16 bits
  return c;
}

void accumulated(std::vector<Case>& out, Case c) {
  c.name += " accumulated";
  c.attrs.push_back(flag("accumulate", true));
  c.inputs.push_back({c.outputs[0], -1, 1});
  c.in_place = {3};
  c.must_alias = true;
  out.push_back(c);
}

}  // namespace

void add_quantized_cases(std::vector<Case>& out) {
  for (const int64_t columns : {0, 1, 31, 32, 33, 64, 100, 768})
    for (const int64_t rows : {0, 1, 5, 67}) add_quantize(out, rows, columns);
  add_quantize(out, 700, 1000);
  for (const uint32_t type : {PLAIT_F64, PLAIT_BF16, PLAIT_F16}) {
    add_quantize(out, 5, 70, type);
    add_quantize(out, 2, 70, type, {{3, kNan}, {40, -kInf}, {71, kInf}});
  }
  for (const uint32_t type : {PLAIT_BF16, PLAIT_F16}) add_quantize(out, 700, 1000, type);
  // A block each with NaN, with infinity, of the least scale and of none; halves between two steps.
  std::vector<std::pair<int64_t, double>> set{{3, kNan}, {40, -kInf}};
  for (int64_t i = 0; i < 32; ++i) {
    set.push_back({64 + i, i == 5 ? 0x1p-119 : 0});
    set.push_back({96 + i, i == 5 ? -0x1.fp-120 : 1e-40});
    set.push_back({128 + i, i == 0 ? 127 : static_cast<double>(i) - 15.5});
  }
  add_quantize(out, 1, 170, PLAIT_F32, std::move(set));

  for (const int64_t m : {0, 1, 2, 3, 4, 5, 8, 9, 70})
    for (const int64_t n : {0, 1, 13, 131})
      for (const int64_t k : {0, 1, 31, 32, 33, 515, 1057}) {
        if (m > 4 && n > 100 && k > 600) continue;
        out.push_back(product(PLAIT_F32, {{m}, n, k}));
        if (n == 13) out.push_back(product(PLAIT_F32, {{m}, n, k}, true, "gelu"));
        if (n == 13) accumulated(out, product(PLAIT_F32, {{m}, n, k}));
      }
  for (const char* activation : {"relu", "tanh", "sigmoid", "gelu", "gelu_tanh", "silu"})
    out.push_back(product(PLAIT_F32, {{2}, 50, 64}, true, activation));
  out.push_back(product(PLAIT_F32, {{2, 1}, 400, 768}));
  out.push_back(product(PLAIT_F32, {{1}, 33, 8720}, true));
  out.push_back(product(PLAIT_F32, {{9}, 70, 2064}, true));
  out.push_back(product(PLAIT_BF16, {{3}, 20, 5120}));
  out.push_back(product(PLAIT_F16, {{33}, 17, 1040}, true, "silu"));
  out.push_back(product(PLAIT_F32, {{2, 3, 5}, 400, 100}, true));
  for (const uint32_t type : {PLAIT_F64, PLAIT_BF16, PLAIT_F16})
    for (const int64_t m : {1, 5, 20}) {
      out.push_back(product(type, {{m}, 60, 130}, true, "silu"));
      accumulated(out, product(type, {{m}, 60, 130}));
      Case c = product(type, {{m}, 60, 130}, true);
      c.name += " into f32";
      c.outputs[0].dtype = PLAIT_F32;
      out.push_back(c);
    }
}

}  // namespace conformance
