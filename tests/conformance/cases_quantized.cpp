// Cases of quantized weights: blocks that are whole and that are not, numbers that have no scale,
// few rows and many, in both directions.
#include <cmath>
#include <limits>

#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

// What rows of these columns are; written out here, as kit/quantized.hpp is what is tested.
struct Weights {
  std::string format;
  int64_t rows, columns;
  bool nf4() const { return format == "nf4"; }
  plait_shape numbers() const {
    return shape(PLAIT_U8, {rows, nf4() ? (columns + 1) / 2 + (columns + 63) / 64 : columns});
  }
  plait_shape scales() const {
    return f32({rows, nf4() ? 2 * ((columns + 16383) / 16384) : (columns + 31) / 32});
  }
  // Numbers and scales of which any bytes are weights of at most 2.6.
  std::vector<Input> inputs() const {
    return {{numbers(), nf4() ? 0.0 : 1.0, 256}, {scales(), 0, nf4() ? 0.01 : 0.02}};
  }
  std::vector<Attr> attrs() const {
    return {text("format", format.c_str()), number("columns", columns)};
  }
};

void add_quantize(std::vector<Case>& out, const Weights& w, uint32_t type = PLAIT_F32,
                  std::vector<std::pair<int64_t, double>> set = {}) {
  const plait_shape x = shape(type, {w.rows, w.columns});
  Case c{"quantize " + w.format + " " + plait::Shape(x).text() +
             (set.empty() ? "" : " of special numbers"),
         "quantize",
         {{x, -2, 2, std::move(set)}},
         {w.numbers(), w.scales()},
         {text("format", w.format.c_str())}};
  c.tolerance = 0;
  out.push_back(c);
}

void add_dequantize(std::vector<Case>& out, const Weights& w, uint32_t type = PLAIT_F32) {
  const plait_shape y = shape(type, {w.rows, w.columns});
  Case c{"dequantize " + w.format + " " + plait::Shape(y).text(),
         "dequantize",
         w.inputs(),
         {y},
         w.attrs()};
  c.tolerance = 0;
  out.push_back(c);
}

// Rows of the table, of its end, and one that it lacks.
void add_gather(std::vector<Case>& out, const Weights& w, uint32_t type = PLAIT_F32,
                int64_t first = 0) {
  const plait_shape y = shape(type, {3, 2, w.columns});
  Case c{
      "gather_quantized " + w.format + " " + plait::Shape(y).text() + (first ? " of a part" : ""),
      "gather_quantized",
      w.inputs(),
      {y},
      w.attrs()};
  c.inputs.push_back({shape(PLAIT_I32, {3, 2}),
                      0,
                      static_cast<double>(w.rows + first),
                      {{1, static_cast<double>(w.rows + first - 1)}, {4, 1000.0}}});
  if (first) c.attrs.insert(c.attrs.end(), {number("first", first), number("total", 900)});
  c.tolerance = 0;
  out.push_back(c);
}

struct Product {
  std::vector<int64_t> lead;
  int64_t n, k;
  const char* format = "int8";
  bool transpose_b = true;
};

Case product(uint32_t type, const Product& p, bool bias = false, const char* activation = "none") {
  std::vector<int64_t> rows = p.lead, results = p.lead;
  rows.push_back(p.k);
  results.push_back(p.n);
  const Weights w{p.format, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n};
  const plait_shape a = shape(type, rows);
  Case c{"matmul_quantized " + plait::Shape(a).text() + " " + w.format + " (" +
             std::to_string(w.rows) + ", " + std::to_string(w.columns) + ")" +
             (p.transpose_b ? "" : " not transposed") + (bias ? " + bias " : " ") + activation,
         "matmul_quantized",
         {{a, -1, 1}},
         {shape(type, results)},
         w.attrs()};
  for (Input& in : w.inputs()) c.inputs.push_back(std::move(in));
  for (Attr& more : std::vector<Attr>{flag("bias", bias), text("activation", activation),
                                      flag("transpose_b", p.transpose_b)})
    c.attrs.push_back(std::move(more));
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
  for (const char* format : {"int8", "nf4"}) {
    for (const int64_t columns : {0, 1, 31, 32, 33, 63, 64, 65, 100, 768})
      for (const int64_t rows : {0, 1, 5, 67}) {
        add_quantize(out, {format, rows, columns});
        add_dequantize(out, {format, rows, columns});
        if (rows > 0) add_gather(out, {format, rows, columns});
      }
    add_quantize(out, {format, 700, 1000});
    add_quantize(out, {format, 2, 16384 + 70});
    add_dequantize(out, {format, 2, 2 * 16384 + 70});
    add_dequantize(out, {format, 700, 1000});
    add_gather(out, {format, 700, 1000});
    add_gather(out, {format, 40, 65}, PLAIT_F32, 20);
    for (const uint32_t type : {PLAIT_F64, PLAIT_BF16, PLAIT_F16}) {
      add_quantize(out, {format, 5, 70}, type);
      add_quantize(out, {format, 2, 70}, type, {{3, kNan}, {40, -kInf}, {71, kInf}});
      add_quantize(out, {format, 2, 10}, type, {{3, kNan}});  // all that share a scale of scales
      add_dequantize(out, {format, 5, 70}, type);
      add_gather(out, {format, 5, 70}, type);
    }
    for (const uint32_t type : {PLAIT_BF16, PLAIT_F16})
      add_quantize(out, {format, 700, 1000}, type);
  }
  // A block each with NaN, with infinity, of the least scale and of none; halves between two steps.
  std::vector<std::pair<int64_t, double>> set{{3, kNan}, {40, -kInf}};
  for (int64_t i = 0; i < 32; ++i) {
    set.push_back({64 + i, i == 5 ? 0x1p-119 : 0});
    set.push_back({96 + i, i == 5 ? -0x1.fp-120 : 1e-40});
    set.push_back({128 + i, i == 0 ? 127 : static_cast<double>(i) - 15.5});
  }
  add_quantize(out, {"int8", 1, 170}, PLAIT_F32, std::move(set));
  // The greatest float, whose block has a scale below its 127th part.
  constexpr double kMost = std::numeric_limits<float>::max();
  add_quantize(out, {"int8", 2, 40}, PLAIT_F32, {{3, kMost}, {4, -kMost}, {5, kMost / 3}});
  // Rows with a block of zeros, of numbers whose scale has no code of its own, of the greatest
  // float, of numbers below the least scale, and numbers half way between two levels.
  set.clear();
  for (int64_t i = 0; i < 64; ++i) {
    set.push_back({i, 0});
    set.push_back({64 + i, i % 2 ? 1e-6 : -1e-7});
    set.push_back({130 + 64 + i, i == 7 ? -std::numeric_limits<float>::max() : 1e37});
    set.push_back({260 + i, i == 3 ? 0x1p-119 : 1e-40});
    set.push_back({260 + 64 + i, i == 3 ? 0x1.fp-120 : 1e-40});
    set.push_back({390 + i, i == 0 ? 1 : i % 2 ? 0.039790149778127670 : -0.04552501812577248});
  }
  for (int64_t i = 0; i < 2; ++i) set.push_back({260 + 128 + i, 0});
  add_quantize(out, {"nf4", 4, 130}, PLAIT_F32, std::move(set));

  for (const int64_t m : {0, 1, 2, 3, 4, 5, 8, 9, 70})
    for (const int64_t n : {0, 1, 13, 131})
      for (const int64_t k : {0, 1, 31, 32, 33, 515, 1057}) {
        if (m > 4 && n > 100 && k > 600) continue;
        out.push_back(product(PLAIT_F32, {{m}, n, k}));
        if (n == 13) out.push_back(product(PLAIT_F32, {{m}, n, k}, true, "gelu"));
        if (n == 13) accumulated(out, product(PLAIT_F32, {{m}, n, k}));
      }
  for (const char* format : {"int8", "nf4"})
    for (const bool transpose_b : {true, false}) {
      if (transpose_b && format[0] == 'i') continue;  // above
      for (const int64_t m : {0, 1, 2, 5, 8, 9, 16, 17, 40})
        for (const int64_t n : {0, 1, 31, 65, 131})
          for (const int64_t k : {0, 1, 31, 63, 64, 65, 100, 515}) {
            if (m > 4 && n > 100 && k > 100) continue;
            const Product p{{m}, n, k, format, transpose_b};
            out.push_back(product(PLAIT_F32, p));
            if (n == 65) out.push_back(product(PLAIT_F32, p, true, "gelu"));
            if (n == 65) accumulated(out, product(PLAIT_F32, p));
          }
      for (const int64_t m : {1, 6, 17, 1024})
        out.push_back(product(PLAIT_F32, {{m}, 200, 320, format, transpose_b}, true));
      out.push_back(product(PLAIT_F32, {{2, 3, 5}, 400, 100, format, transpose_b}, true));
      out.push_back(product(PLAIT_F32, {{20}, 16384 + 70, 5, format, transpose_b}));
      out.push_back(product(PLAIT_F32, {{3}, 5, 16384 + 70, format, transpose_b}));
      // Several blocks of columns of y, the last one smaller.
      out.push_back(product(PLAIT_BF16, {{17}, 200, 5120, format, transpose_b}, true, "gelu"));
      accumulated(out, product(PLAIT_BF16, {{17}, 200, 5120, format, transpose_b}));
      for (const uint32_t type : {PLAIT_F64, PLAIT_BF16, PLAIT_F16})
        for (const int64_t m : {1, 20, 130}) {
          out.push_back(product(type, {{m}, 300, 130, format, transpose_b}, true, "silu"));
          accumulated(out, product(type, {{m}, 300, 130, format, transpose_b}));
          Case c = product(type, {{m}, 300, 130, format, transpose_b}, true);
          c.name += " into f32";
          c.outputs[0].dtype = PLAIT_F32;
          out.push_back(c);
        }
    }
  for (const char* activation : {"relu", "tanh", "sigmoid", "gelu", "gelu_tanh", "silu"})
    out.push_back(product(PLAIT_F32, {{2}, 50, 64}, true, activation));
  out.push_back(product(PLAIT_F32, {{2, 1}, 400, 768}));
  out.push_back(product(PLAIT_F32, {{1}, 33, 8720}, true));
  out.push_back(product(PLAIT_F32, {{9}, 70, 2064}, true));
  out.push_back(product(PLAIT_BF16, {{3}, 20, 5120}));
  out.push_back(product(PLAIT_F16, {{33}, 17, 1040}, true, "silu"));
  out.push_back(product(PLAIT_F32, {{2, 3, 5}, 400, 100}, true));
  // Several blocks of columns of y, the last one smaller.
  out.push_back(product(PLAIT_BF16, {{17}, 200, 5120}, true, "gelu"));
  accumulated(out, product(PLAIT_BF16, {{17}, 200, 5120}));
  // Weights next to the greatest float.
  for (const int64_t m : {1, 20})
    for (const bool transpose_b : {true, false}) {
      Case c = product(PLAIT_F32, {{m}, 40, 70, "int8", transpose_b});
      c.name += " of great weights";
      c.inputs[0].low = -1e-20, c.inputs[0].high = 1e-20;
      for (int64_t i = 0; i < 40; ++i) c.inputs[2].set.push_back({i, kMost / 128});
      c.scale = 1e19;
      out.push_back(c);
    }
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
