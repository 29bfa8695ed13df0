// Ops other than products: the bytes per second that they move, each operand counted once, beside
// the rate of a copy; of attention the operations per second.
#include <cmath>
#include <stdexcept>

#include "tests/bench/cuda/op.hpp"

namespace cuda_bench {
namespace {

using namespace conformance;

struct Measured {
  Case c;
  double flops = 0;  // 0: bytes count
};

using Dims = std::vector<int64_t>;

Case map_of(const char* name, std::vector<Input> inputs, std::vector<plait_shape> outputs,
            Expression e, std::vector<int32_t> in_place = {}) {
  Case c{name, "map", std::move(inputs), std::move(outputs)};
  c.map = std::move(e);
  c.in_place = std::move(in_place);
  return c;
}

// As plugins/optimizers/adamw writes it: parameter, gradient, two moments and the rate; the
// parameter is also written in bf16.
Case adamw(int64_t n) {
  const plait_shape s = f32({n});
  enum : uint32_t { p, g, m, v, rate, b1, b1c, b2, b2c, eps, decay };
  Expression e;
  for (const double constant : {0.9, 0.1, 0.95, 0.05, 1e-8, 0.1})
    e.instrs.push_back({PLAIT_MAP_CONST, 0, 0, 0, constant});
  const plait_map_instr rest[] = {
      {PLAIT_MAP_MUL, m, b1, 0, 0},    {PLAIT_MAP_FMA, g, b1c, 11, 0},  // 12: m'
      {PLAIT_MAP_MUL, g, g, 0, 0},     {PLAIT_MAP_MUL, v, b2, 0, 0},
      {PLAIT_MAP_FMA, 13, b2c, 14, 0}, {PLAIT_MAP_ABS, 15, 0, 0, 0},  // 15: v'
      {PLAIT_MAP_SQRT, 16, 0, 0, 0},   {PLAIT_MAP_ADD, 17, eps, 0, 0},
      {PLAIT_MAP_DIV, 12, 18, 0, 0},   {PLAIT_MAP_FMA, p, decay, 19, 0},
      {PLAIT_MAP_MUL, 20, rate, 0, 0}, {PLAIT_MAP_SUB, p, 21, 0, 0}};  // 22: p'
  e.instrs.insert(e.instrs.end(), std::begin(rest), std::end(rest));
  e.outputs = {22, 12, 15, 22};
  return map_of("adamw of 124M parameters, bf16 copy", {{s}, {s}, {s}, {s}, {f32({})}},
                {s, s, s, shape(PLAIT_BF16, {n})}, e, {0, 2, 3, -1});
}

void add_maps(std::vector<Measured>& out) {
  const int64_t n = 128 << 20;
  const auto half = [](Dims d) { return shape(PLAIT_BF16, d); };
  out.push_back(
      {map_of("copy of f32", {{f32({n})}}, {f32({n})}, {{{PLAIT_MAP_COPY, 0, 0, 0, 0}}, {1}})});
  out.push_back(
      {map_of("f32 to bf16", {{f32({n})}}, {half({n})}, {{{PLAIT_MAP_COPY, 0, 0, 0, 0}}, {1}})});
  out.push_back({map_of("residual sum, bf16", {{half({n})}, {half({n})}}, {half({n})},
                        {{{PLAIT_MAP_ADD, 0, 1, 0, 0}}, {2}})});
  out.push_back({map_of("bias and relu, (65536,3072) bf16", {{half({65536, 3072})}, {f32({3072})}},
                        {half({65536, 3072})},
                        {{{PLAIT_MAP_ADD, 0, 1, 0, 0}, {PLAIT_MAP_RELU, 2, 0, 0, 0}}, {3}})});
  out.push_back({map_of(
      "SwiGLU, (8192,11008) bf16", {{half({8192, 11008})}, {half({8192, 11008})}},
      {half({8192, 11008})},
      {{{PLAIT_MAP_SIGMOID, 0, 0, 0, 0}, {PLAIT_MAP_MUL, 0, 2, 0, 0}, {PLAIT_MAP_MUL, 3, 1, 0, 0}},
       {4}})});
  out.push_back({map_of("times a column, (65536,768) f32", {{f32({65536, 768})}, {f32({65536, 1})}},
                        {f32({65536, 768})}, {{{PLAIT_MAP_MUL, 0, 1, 0, 0}}, {2}})});
  out.push_back({adamw(124475904)});
}

void add_reductions(std::vector<Measured>& out) {
  const auto reduce = [&](const char* name, const char* kind, const plait_shape& x,
                          const plait_shape& y, std::vector<int64_t> axes) {
    out.push_back({Case{name, "reduce", {{x}}, {y}, {text("kind", kind), list("axes", axes)}}});
  };
  const plait_shape x = shape(PLAIT_BF16, {65536, 3072});
  reduce("columns summed, (65536,3072) bf16", "sum", x, shape(PLAIT_BF16, {3072}), {0});
  reduce("columns summed, (65536,768) f32", "sum", f32({65536, 768}), f32({768}), {0});
  reduce("rows summed, (65536,3072) bf16", "sum", x, shape(PLAIT_BF16, {65536}), {1});
  reduce("sum of squares, 124M f32", "sum_squares", f32({124475904}), f32({}), {0});
}

void add_rows(std::vector<Measured>& out) {
  for (const int64_t classes : {50257, 1024}) {
    const int64_t rows = classes > 2000 ? 8192 : 196608;
    const std::string size = " (" + std::to_string(rows) + "," + std::to_string(classes) + ") bf16";
    const plait_shape x = shape(PLAIT_BF16, {rows, classes}), r = f32({rows});
    out.push_back({Case{"softmax" + size, "softmax", {{x}}, {x}}});
    out.push_back({Case{"softmax_grad" + size, "softmax_grad", {{x}, {x}}, {x}}});
    if (classes < 2000) continue;
    const Input label{shape(PLAIT_I32, {rows})};
    out.push_back({Case{"cross_entropy" + size, "cross_entropy", {{x}, label}, {r, r}}});
    Case grad{"cross_entropy_grad" + size, "cross_entropy_grad", {{x}, label, {r}, {r}}, {x}};
    out.push_back({grad});
  }
  for (const int64_t width : {768, 4096}) {
    const int64_t rows = width == 768 ? 65536 : 16384;
    const std::string size = " (" + std::to_string(rows) + "," + std::to_string(width) + ") bf16";
    const plait_shape x = shape(PLAIT_BF16, {rows, width}), g = f32({width}), r = f32({rows});
    out.push_back({Case{"layer_norm" + size, "layer_norm", {{x}, {g}, {g}}, {x, r, r}}});
    out.push_back(
        {Case{"layer_norm_grad" + size, "layer_norm_grad", {{x}, {g}, {r}, {r}, {x}}, {x, g, g}}});
    out.push_back({Case{"rms_norm" + size, "rms_norm", {{x}, {g}}, {x, r}}});
    out.push_back({Case{"rms_norm_grad" + size, "rms_norm_grad", {{x}, {g}, {r}, {x}}, {x, g}}});
  }
}

// Tokens of a vocabulary, with what costs most: top_k, top_p and the log-probability.
void add_draws(std::vector<Measured>& out) {
  for (const int64_t rows : {1, 32})
    for (const bool cut : {false, true}) {
      const int64_t v = 128256;
      Input settings{f32({rows, 3}), 0.9, 0.9}, numbers{shape(PLAIT_I32, {rows, 8}), 1, 1};
      for (int64_t r = 0; r < rows; ++r) {
        settings.set.insert(settings.set.end(),
                            {{3 * r + 1, cut ? 0.9 : 1.0}, {3 * r + 2, cut ? 0.01 : 0.0}});
        numbers.set.insert(numbers.set.end(), {{8 * r, static_cast<double>(v)},
                                               {8 * r + 1, cut ? 1000.0 : 0.0},
                                               {8 * r + 3, static_cast<double>(r)}});
      }
      const std::string size = " (" + std::to_string(rows) + "," + std::to_string(v) + ")";
      out.push_back({Case{"draw_tokens" + size + (cut ? ", top_k, top_p and min_p" : ""),
                          "draw_tokens",
                          {{f32({rows, v}), -12, 4}, settings, numbers},
                          {shape(PLAIT_I32, {rows}), f32({rows})}}});
    }
}

void add_moves(std::vector<Measured>& out) {
  const plait_shape table = shape(PLAIT_BF16, {50257, 768}), rows = shape(PLAIT_BF16, {32768, 768});
  const Input index{shape(PLAIT_I32, {32768})};
  out.push_back({Case{"gather 32768 of (50257,768) bf16", "gather", {{table}, index}, {rows}}});
  out.push_back({Case{"scatter_add 32768 to (50257,768) f32",
                      "scatter_add",
                      {{rows}, index},
                      {f32({50257, 768})},
                      {number("rows", 50257)}}});
  const plait_shape x = shape(PLAIT_BF16, {8192, 4096}), turned = shape(PLAIT_BF16, {4096, 8192});
  out.push_back(
      {Case{"transpose (8192,4096) bf16", "transpose", {{x}}, {turned}, {list("perm", {1, 0})}}});
  const plait_shape heads = shape(PLAIT_BF16, {4, 2048, 32, 128}), angles = f32({2048, 64});
  out.push_back({Case{"rope (4,2048,32,128) bf16",
                      "rope",
                      {{heads}, {angles}, {angles}},
                      {heads},
                      {text("pairs", "half"), flag("inverse", false)}}});
}

struct Heads {
  int64_t samples, tokens, heads, groups, channels;
};

void add_attention(std::vector<Measured>& out) {
  for (const Heads& s :
       {Heads{32, 1024, 12, 12, 64}, Heads{4, 2048, 32, 32, 128}, Heads{1, 8192, 32, 8, 128}}) {
    const plait_shape q = shape(PLAIT_BF16, {s.samples, s.tokens, s.heads, s.channels}),
                      k = shape(PLAIT_BF16, {s.samples, s.tokens, s.groups, s.channels}),
                      lse = f32({s.samples, s.heads, s.tokens});
    const std::vector<Attr> attrs = {real("scale", 1 / std::sqrt(static_cast<double>(s.channels)))};
    const double flops =
        2.0 * static_cast<double>(s.samples * s.heads * s.tokens * s.tokens) *
        static_cast<double>(s.channels);  // a causal mask leaves half of 4 B H T T D
    const std::string size = " " + plait::Shape(q).text() + " bf16";
    out.push_back(
        {Case{"attention" + size, "dot_product_attention", {{q}, {k}, {k}}, {q, lse}, attrs},
         flops});
    Measured library = out.back();
    library.c.name = "attention by cuDNN" + size;
    library.c.permits = {flag("library", true)};
    out.push_back(std::move(library));
    out.push_back({Case{"attention, backward" + size,
                        "dot_product_attention_grad",
                        {{q}, {k}, {k}, {q}, {lse}, {q}},
                        {q, k, k},
                        attrs},
                   2.5 * flops});
  }
}

// Bytes per millisecond of the driver's copy, read and written.
double copy_rate(Lab& lab, Report& report) {
  constexpr uint64_t kBytes = 512 << 20;
  const double ms = lab.milliseconds(
      [&] {
        plait::cuda::check(
            plait::cuda::driver().cuMemcpyDtoDAsync(
                reinterpret_cast<CUdeviceptr>(lab.results().take(kBytes)),
                reinterpret_cast<CUdeviceptr>(lab.floats().take(kBytes)), kBytes, lab.stream()),
            "copying");
      },
      7);
  const double rate = 2.0 * kBytes / ms;
  report.line("copy", "512 MiB by the driver", {{"ms", ms}, {"GB/s", rate * 1e-6}});
  return rate;
}

}  // namespace

void bench_ops(Lab& lab, Report& report, double seconds) {
  const double copy = copy_rate(lab, report);
  std::vector<Measured> all;
  add_maps(all);
  add_rows(all);
  add_attention(all);
  add_reductions(all);
  add_moves(all);
  add_draws(all);
  for (const Measured& one : all) {
    const std::string section = one.flops > 0 ? "flops" : "bytes";
    if (!report.wants(section, one.c.name)) continue;
    try {
      Op op(lab, one.c, one.flops == 0);
      if (lab.elapsed() > seconds) throw std::runtime_error("no time left for " + op.detail());
      const double ms = lab.milliseconds([&] { op.enqueue(); }, 7);
      if (one.flops > 0)
        report.line(section, one.c.name, {{"ms", ms}, {"tflops", one.flops / ms * 1e-9}},
                    op.detail());
      else
        report.line(
            section, one.c.name,
            {{"ms", ms}, {"GB/s", op.bytes() / ms * 1e-6}, {"of copy", op.bytes() / ms / copy}},
            op.detail());
    } catch (const std::exception& e) {
      report.skipped(section, one.c.name, e.what());
    }
  }
}

}  // namespace cuda_bench
