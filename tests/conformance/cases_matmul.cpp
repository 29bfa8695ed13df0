// Cases of matmul: orientations, batches, bias, activations, accumulation, empty extents.
#include <cmath>

#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

struct Product {
  std::vector<int64_t> lead;
  int64_t m, n, k;
  bool ta = false, tb = false, shared = false;
};

Case matmul(uint32_t type, const Product& p, bool bias = false, const char* activation = "none") {
  const auto matrix = [&](int64_t rows, int64_t cols, bool lead) {
    std::vector<int64_t> dims = lead ? p.lead : std::vector<int64_t>();
    dims.push_back(rows);
    dims.push_back(cols);
    return shape(type, dims);
  };
  const plait_shape a = p.ta ? matrix(p.k, p.m, true) : matrix(p.m, p.k, true);
  const plait_shape b = p.tb ? matrix(p.n, p.k, !p.shared) : matrix(p.k, p.n, !p.shared);
  const plait_shape y = matrix(p.m, p.n, true);
  Case c{"matmul " + plait::Shape(a).text() + (p.ta ? "^T" : "") + " " + plait::Shape(b).text() +
             (p.tb ? "^T" : "") + (bias ? " + bias" : "") + " " + activation,
         "matmul",
         {{a, -1, 1}, {b, -1, 1}},
         {y},
         {flag("transpose_a", p.ta), flag("transpose_b", p.tb), flag("bias", bias),
          text("activation", activation)}};
  if (bias) c.inputs.push_back({shape(type, {p.n}), -1, 1});
  c.scale = 1 + std::sqrt(static_cast<double>(p.k));
  c.same_over_threads = false;
  return c;
}

// As mixed precision writes them: 16-bit operands, a bias of f32, y of either type.
void add_mixed_bias(std::vector<Case>& out, uint32_t type, uint32_t y, const Product& p) {
  Case c = matmul(type, p, true, "gelu_tanh");
  c.name += y == type ? ", 16 bits" : ", 16 bits into f32";
  c.inputs[2].shape.dtype = PLAIT_F32;
  c.outputs[0].dtype = y;
  out.push_back(c);
}
void add_mixed_sum(std::vector<Case>& out, uint32_t type, uint32_t y, const Product& p) {
  Case c = matmul(type, p);
  c.name += y == type ? " accumulated, 16 bits" : " accumulated, 16 bits into f32";
  c.outputs[0].dtype = y;
  c.attrs.push_back(flag("accumulate", true));
  c.inputs.push_back({c.outputs[0], -1, 1});
  c.in_place = {2};
  c.must_alias = true;
  out.push_back(c);
}
void add_mixed(std::vector<Case>& out, uint32_t type, const Product& p) {
  for (const uint32_t y : {type, uint32_t{PLAIT_F32}}) {
    add_mixed_bias(out, type, y, p);
    add_mixed_sum(out, type, y, p);
  }
  Case c = matmul(type, p);
  c.name += " with squares, 16 bits into f32";
  c.outputs[0].dtype = PLAIT_F32;
  c.attrs.push_back(flag("squares", true));
  c.outputs.push_back(shape(PLAIT_F32, {}));
  c.scale *= 1 + static_cast<double>(p.m * p.n);
  out.push_back(c);
}

// relu leaves NaN as it is: in row 1 and in column 2 of y.
void add_relu_of_nan(std::vector<Case>& out) {
  struct Types {
    uint32_t operands, y;
  };
  for (const Types t :
       {Types{PLAIT_F32, PLAIT_F32}, Types{PLAIT_BF16, PLAIT_BF16}, Types{PLAIT_BF16, PLAIT_F32}})
    for (const bool bias : {false, true}) {
      const Product p{{}, 16, 24, 32};
      Case c = matmul(t.operands, p, bias, "relu");
      c.name += ", some NaN";
      c.inputs[0].set.push_back({1 * p.k + 5, std::nan("")});
      c.inputs[1].set.push_back({3 * p.n + 2, std::nan("")});
      if (bias) c.inputs[2].shape.dtype = t.y;
      c.outputs[0].dtype = t.y;
      out.push_back(c);
    }
}

// Operands of f32 that are rounded, or cut, to 10 bits of fraction.
void add_tf32(std::vector<Case>& out, Case c) {
  constexpr double kRounding = 2e-3;  // 2^-10 of each operand, and little else
  c.name += " in TF32";
  c.permits = {flag("tf32", true)};
  c.tolerance = kRounding;
  out.push_back(c);
}

// Larger than the second-level cache, with rows and columns that fill no block. Few cases: the
// plain kernel takes a second for each.
void add_large(std::vector<Case>& out) {
  const size_t before = out.size();
  const Product large{{}, 517, 523, 531, false, true};
  add_mixed_bias(out, PLAIT_BF16, PLAIT_F32, large);
  add_mixed_bias(out, PLAIT_F16, PLAIT_F16, large);
  // Pairs of bf16 need an even number of summands.
  add_mixed_bias(out, PLAIT_BF16, PLAIT_BF16, {{}, 517, 523, 532, false, true});
  add_mixed_sum(out, PLAIT_BF16, PLAIT_F32, {{}, 517, 523, 532, true, false});
  add_mixed_sum(out, PLAIT_BF16, PLAIT_BF16, {{}, 517, 523, 532, false, false});
  out.push_back(matmul(PLAIT_BF16, {{2}, 517, 300, 532, true, true}));
  // So many summands that a result of bf16 is made as f32.
  out.push_back(matmul(PLAIT_BF16, {{}, 37, 301, 8194, false, true}));
  for (size_t i = before; i < out.size(); ++i) out[i].large = true;
  // More than 16 MiB as f32: made some columns at a time, the last ones fewer.
  add_mixed_bias(out, PLAIT_BF16, PLAIT_BF16, {{}, 517, 8131, 9, false, true});
}

}  // namespace

void add_matmul_cases(std::vector<Case>& out) {
  struct Size {
    int64_t m, n, k;
  };
  for (const Size s : {Size{32, 120, 784}, Size{32, 84, 120}, Size{32, 10, 84}, Size{1, 1, 1},
                       Size{7, 17, 33}, Size{1, 1000, 7}, Size{33, 1, 17}, Size{65, 130, 70},
                       Size{5, 3, 0}, Size{0, 3, 5}, Size{5, 0, 3}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        out.push_back(matmul(PLAIT_F32, {{}, s.m, s.n, s.k, ta, tb}));
        out.push_back(matmul(PLAIT_F32, {{}, s.m, s.n, s.k, ta, tb}, true, "relu"));
        Case c = matmul(PLAIT_F32, {{}, s.m, s.n, s.k, ta, tb});
        c.name += " accumulated";
        c.attrs.push_back(flag("accumulate", true));
        c.inputs.push_back({c.outputs[0], -1, 1});
        c.in_place = {2};
        c.must_alias = true;
        out.push_back(c);
        c = matmul(PLAIT_F32, {{}, s.m, s.n, s.k, ta, tb});
        c.name += " with squares";
        c.attrs.push_back(flag("squares", true));
        c.outputs.push_back(shape(PLAIT_F32, {}));
        c.scale *= 1 + static_cast<double>(s.m * s.n);
        out.push_back(c);
      }
  for (const char* activation : {"none", "relu", "tanh", "sigmoid", "gelu", "gelu_tanh", "silu"}) {
    out.push_back(matmul(PLAIT_F32, {{}, 32, 84, 120, false, true}, true, activation));
    out.push_back(matmul(PLAIT_F32, {{2}, 5, 6, 7}, false, activation));
  }
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      out.push_back(matmul(PLAIT_F32, {{2, 3}, 9, 10, 11, ta, tb}));
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      add_tf32(out, matmul(PLAIT_F32, {{}, 33, 84, 120, ta, tb}));
      add_tf32(out, matmul(PLAIT_F32, {{}, 33, 84, 120, ta, tb}, true, "gelu"));
      add_tf32(out, matmul(PLAIT_F32, {{2}, 7, 17, 31, ta, tb}));
    }
  Case narrow = matmul(PLAIT_F32, {{}, 7, 17, 33}, true, "relu");
  narrow.outputs[0].dtype = PLAIT_F64;
  add_tf32(out, narrow);
  out.back().tolerance *= 1e7;  // f64 has the tolerance of f32 here
  add_relu_of_nan(out);
  out.push_back(matmul(PLAIT_F32, {{2, 3}, 9, 10, 11, false, true, true}, true));
  out.push_back(matmul(PLAIT_F32, {{0}, 9, 10, 11}));
  out.push_back(matmul(PLAIT_F32, {{}, 300, 310, 320}));
  // A few rows and 16-bit weights, as when a model makes a token: rows, bias and y of either type.
  for (const uint32_t type : {PLAIT_BF16, PLAIT_F16})
    for (const int64_t m : {1, 2, 3, 4, 5, 8})
      for (const uint32_t y : {type, uint32_t{PLAIT_F32}}) {
        Case c = matmul(type, {{}, m, 101, 523 + m, false, true}, true, "gelu");
        c.name += ", few rows";
        c.inputs[2].shape.dtype = c.outputs[0].dtype = y;
        c.same_over_threads = true;
        out.push_back(c);
        add_mixed_sum(out, type, y, {{}, m, 101, 1024, false, true});
      }
  for (uint32_t type : {PLAIT_F64, PLAIT_BF16, PLAIT_F16}) {
    out.push_back(matmul(type, {{}, 7, 17, 33, false, true}, true, "gelu"));
    out.push_back(matmul(type, {{2}, 7, 9, 8, true, false}));
  }
  for (const uint32_t type : {PLAIT_BF16, PLAIT_F16})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const Size s : {Size{7, 17, 33}, Size{1, 1, 1}, Size{67, 73, 131}})
          add_mixed(out, type, {{}, s.m, s.n, s.k, ta, tb});
  add_large(out);
}

}  // namespace conformance
