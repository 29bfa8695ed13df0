// Numbers worked out by hand (or by twenty lines of Python): what the oracle itself is held to, and
// every other kernel with it.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/conformance/runner.hpp"

#include "plugins/support/elements.hpp"

namespace conformance {
namespace {

using Numbers = std::vector<double>;

Input given(const plait_shape& s, const Numbers& values) {
  Input in{s};
  for (size_t i = 0; i < values.size(); ++i) in.set.push_back({static_cast<int64_t>(i), values[i]});
  return in;
}

// Every kernel of every plugin that takes the case gives these outputs.
void expect(const Case& c, const std::vector<Numbers>& wanted) {
  CAPTURE(c.op);
  for (const auto& plugin : plugins()) {
    CAPTURE(plugin->name());
    const Device device(*plugin);
    for (const auto* kernel : plugin->kernels(c.op)) {
      if (!select(*kernel, Desc(c, 1)).taken) continue;
      CAPTURE(std::string(kernel->name));
      const auto found = run(device, *kernel, c, 1, RunMode::direct);
      for (size_t o = 0; o < wanted.size(); ++o)
        for (size_t i = 0; i < wanted[o].size(); ++i) {
          CAPTURE(o);
          CAPTURE(i);
          const double got = plait::support::read_element(c.outputs[o].dtype, found[o].data(),
                                                          static_cast<int64_t>(i));
          if (std::isnan(wanted[o][i]))
            CHECK(std::isnan(got));
          else if (std::isinf(wanted[o][i]))
            CHECK(got == wanted[o][i]);
          else
            CHECK(got == doctest::Approx(wanted[o][i]).epsilon(2e-6));
        }
    }
  }
}

const plait_shape kRows = f32({2, 3});
const Input kX = given(kRows, {1, 2, 3, 0.5, -1, 4});
const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("values: matmul") {
  Case c{"",
         "matmul",
         {given(f32({2, 2}), {1, 2, 3, 4}), given(f32({2, 2}), {5, 6, 7, 8})},
         {f32({2, 2})}};
  expect(c, {{19, 22, 43, 50}});
  c.attrs = {flag("transpose_a", true)};
  expect(c, {{26, 30, 38, 44}});
  c.attrs = {flag("transpose_b", true)};
  expect(c, {{17, 23, 39, 53}});
  c.attrs = {flag("bias", true), text("activation", "relu")};
  c.inputs.push_back(given(f32({2}), {-20, 1}));
  expect(c, {{0, 23, 23, 51}});
}

TEST_CASE("values: softmax and its relatives") {
  expect({"", "softmax", {kX}, {kRows}},
         {{0.0900305731, 0.2447284710, 0.6652409557, 0.0291217615, 0.0064979433, 0.9643802951}});
  expect({"", "log_softmax", {kX}, {kRows}}, {{-2.4076059644, -1.4076059644, -0.4076059644,
                                               -3.5362695651, -5.0362695651, -0.0362695651}});
  const Input y = given(f32({1, 2}), {0.25, 0.75}), dy = given(f32({1, 2}), {2, -1});
  expect({"", "softmax_grad", {y, dy}, {f32({1, 2})}}, {{0.5625, -0.5625}});
  const Input log_y = given(f32({1, 2}), {std::log(0.25), std::log(0.75)});
  expect({"", "log_softmax_grad", {log_y, dy}, {f32({1, 2})}}, {{1.75, -1.75}});
}

TEST_CASE("values: cross-entropy") {
  const Input labels = given(shape(PLAIT_I32, {2}), {2, 0});
  const std::vector<plait_shape> rows = {f32({2}), f32({2})};
  expect({"", "cross_entropy", {kX, labels}, rows},
         {{0.4076059644, 3.5362695651}, {3.4076059644, 4.0362695651}});
  expect({"", "cross_entropy", {kX, labels}, rows, {real("label_smoothing", 0.1)}},
         {{0.5076059644, 3.4696028985}, {3.4076059644, 4.0362695651}});
  const Input odd = given(shape(PLAIT_I64, {2}), {-7, 3});
  expect({"", "cross_entropy", {kX, odd}, rows}, {{0, kNan}, {3.4076059644, 4.0362695651}});

  const Input lse = given(f32({2}), {3.4076059644, 4.0362695651}), d = given(f32({2}), {2, 1});
  expect({"", "cross_entropy_grad", {kX, labels, lse, d}, {kRows}},
         {{0.1800611463, 0.4894569421, -0.6695180885, -0.9708782385, 0.0064979433, 0.9643802951}});
  expect({"", "cross_entropy_grad", {kX, odd, lse, d}, {kRows}}, {{0, 0, 0, kNan, kNan, kNan}});
}

TEST_CASE("values: norms") {
  const plait_shape r = f32({2});
  const Input gain = given(f32({3}), {1, 2, 3}), bias = given(f32({3}), {0, 1, -1});
  expect({"", "layer_norm", {kX, gain, bias}, {kRows, r, r}, {real("eps", 1e-5)}},
         {{-1.2247356859, 1, 2.6742070577, -0.3182225511, -1.0684465824, 3.0573375270},
          {2, 1.1666666667},
          {1.2247356859, 0.4773338267}});
  expect({"", "rms_norm", {kX, gain}, {kRows, r}, {real("eps", 1e-5)}},
         {{0.4629095539, 1.8516382156, 4.1661859851, 0.2085142327, -0.8340569310, 5.0043415823},
          {0.4629095539, 0.4170284655}});
  // One row, xh = (-1, 1), gain 1: dx = rstd (dy - mean(dy) - xh mean(dy xh)) = 0 for any dy of two
  // elements.
  const Input x = given(f32({1, 2}), {3, 5}), one = given(f32({2}), {1, 1}),
              dy = given(f32({1, 2}), {2, 7});
  const Input mean = given(f32({1}), {4}), rstd = given(f32({1}), {1});
  expect({"", "layer_norm_grad", {x, one, mean, rstd, dy}, {f32({1, 2}), f32({2}), f32({2})}},
         {{0, 0}, {-2, 7}, {2, 7}});
  expect({"", "rms_norm_grad", {x, one, rstd, dy}, {f32({1, 2}), f32({2})}},
         {{-59.5, -95.5}, {6, 35}});
}

TEST_CASE("values: reduce") {
  const auto reduce = [](const char* kind, int64_t axis, const Numbers& wanted) {
    expect({"",
            "reduce",
            {kX},
            {f32({axis == 0 ? 3 : 2})},
            {text("kind", kind), list("axes", {axis}), flag("keep", false)}},
           {wanted});
  };
  reduce("sum", 1, {6, 3.5});
  reduce("sum", 0, {1.5, 1, 7});
  reduce("max", 0, {1, 2, 4});
  reduce("sum_squares", 1, {14, 17.25});
  expect({"", "reduce", {given(f32({0}), {})}, {f32({})}, {text("kind", "max"), list("axes", {0})}},
         {{-kInf}});
}

TEST_CASE("values: rows by index, and moved elements") {
  const Input table = given(f32({3, 2}), {1, 2, 3, 4, 5, 6}),
              index = given(shape(PLAIT_I64, {3}), {2, 3, 0});
  expect({"", "gather", {table, index}, {f32({3, 2})}}, {{5, 6, kNan, kNan, 1, 2}});
  const Input twice = given(shape(PLAIT_U8, {3}), {1, 1, 9});
  expect({"", "scatter_add", {table, twice}, {f32({2, 2})}, {number("rows", 2)}}, {{0, 0, 4, 6}});
  expect({"", "one_hot", {twice}, {f32({3, 2})}, {number("depth", 2)}}, {{0, 1, 0, 1, 0, 0}});
  expect({"", "transpose", {table}, {f32({2, 3})}, {list("perm", {1, 0})}}, {{1, 3, 5, 2, 4, 6}});
  expect({"",
          "slice",
          {table},
          {f32({3, 1})},
          {number("axis", 1), number("start", 1), number("stop", 2)}},
         {{2, 4, 6}});
  expect({"",
          "pad",
          {table},
          {f32({3, 4})},
          {number("axis", 1), number("before", 1), number("after", 1)}},
         {{0, 1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0}});
  expect({"", "concat", {table, given(f32({3, 1}), {7, 8, 9})}, {f32({3, 3})}, {number("axis", 1)}},
         {{1, 2, 7, 3, 4, 8, 5, 6, 9}});
}

TEST_CASE("values: rows of f64 are added up in f64, whatever the sum's type") {
  const Input rows = given(shape(PLAIT_F64, {3, 1}), {0x1p24, 1, -0x1p24}),
              ones = given(shape(PLAIT_F64, {1, 3}), {1, 1, 1}),
              place = given(shape(PLAIT_I32, {1, 3}), {0, 1, 2});
  expect({"", "ungroup_rows", {rows, place}, {f32({1, 1})}}, {{1}});
  expect({"", "ungroup_rows", {rows, ones, place}, {f32({1, 1})}}, {{1}});
}

TEST_CASE("values: weights of 8 bits") {
  // The greatest of a block is 127 steps; halves go to the even one.
  const Input x = given(f32({2, 3}), {127, -0.5, 1.5, 0, -254, 3});
  expect({"", "quantize", {x}, {shape(PLAIT_U8, {2, 3}), f32({2, 1})}},
         {{255, 128, 130, 128, 1, 130}, {1, 2}});
  const Input a = given(f32({1, 3}), {1, 1, -1}),
              q = given(shape(PLAIT_U8, {2, 3}), {255, 128, 130, 128, 1, 130}),
              scale = given(f32({2, 1}), {1, 2}), bias = given(f32({2}), {10, 20});
  Case c{"", "matmul_quantized", {a, q, scale}, {f32({1, 2})}};
  expect(c, {{127 - 2, -254 - 4}});
  c.inputs.push_back(bias);
  c.attrs = {flag("bias", true)};
  expect(c, {{127 - 2 + 10, -254 - 4 + 20}});
  expect({"",
          "matmul_quantized",
          {given(f32({1, 2}), {1, 1}), q, scale},
          {f32({1, 3})},
          {flag("transpose_b", false)}},
         {{127, -254, 2 + 4}});
  expect({"", "dequantize", {q, scale}, {f32({2, 3})}}, {{127, 0, 2, 0, -254, 4}});
  expect({"", "gather_quantized", {q, scale, given(shape(PLAIT_I32, {2}), {1, 1})}, {f32({2, 3})}},
         {{0, -254, 4, 0, -254, 4}});
}

TEST_CASE("values: weights of 4 bits") {
  // Levels 0, 7, 15 and 8 of 16; three columns take two bytes, the last half is level 7.
  const Input x = given(f32({2, 3}), {-2, 0.1, 2, 0, 0, 0});
  expect({"", "quantize", {x}, {shape(PLAIT_U8, {2, 3}), f32({2, 2})}, {text("format", "nf4")}},
         {{0x80, 0x7f, 0, 0x77, 0x77, 0}, {2, 0, 0, 0}});
  const Input q = given(shape(PLAIT_U8, {2, 3}), {0x70, 0x7f, 3, 0xf0, 0x77, 2}),
              scale = given(f32({2, 2}), {1, 0.5, 0, 4});
  const std::vector<Attr> attrs{text("format", "nf4"), number("columns", 3)};
  expect({"", "dequantize", {q, scale}, {f32({2, 3})}, attrs}, {{-2.5, 0, 2.5, -8, 8, 0}});
  Case c{"", "matmul_quantized", {given(f32({1, 3}), {1, 2, 3}), q, scale}, {f32({1, 2})}, attrs};
  expect(c, {{5, 8}});
  c.inputs[0] = given(f32({1, 2}), {1, 2});
  c.outputs[0] = f32({1, 3});
  c.attrs.push_back(flag("transpose_b", false));
  expect(c, {{-18.5, 16, 2.5}});
}

TEST_CASE("values: rows written to a cache, and attention over it") {
  // Two slots of three places, one head, one channel.
  const Input cache = given(f32({2, 3, 1, 1}), {1, 2, 3, 4, 5, 6}),
              x = given(f32({2, 2, 1, 1}), {7, 8, 9, 10}),
              slot = given(shape(PLAIT_I32, {2}), {1, 0}),
              at = given(shape(PLAIT_I32, {2, 2}), {2, 0, 3, -1});
  expect({"", "cache_write", {cache, x, slot, at}, {f32({2, 3, 1, 1})}}, {{1, 2, 3, 8, 5, 7}});
  const Input nowhere = given(shape(PLAIT_I32, {2}), {2, -1});
  expect({"", "cache_write", {cache, x, nowhere, at}, {f32({2, 3, 1, 1})}}, {{1, 2, 3, 4, 5, 6}});
  // q = 0 gives the mean of the values it sees; with q = ln 2 the scores are those of keys 0, 1, 2.
  const Input zero = given(f32({2, 2, 1, 1}), {0, 0, 0, 0}),
              two = given(f32({2, 1, 1, 1}), {std::log(2), std::log(2)}),
              keys = given(f32({2, 3, 1, 1}), {0, 1, 2, 2, 1, 0}),
              last = given(shape(PLAIT_I32, {2, 1}), {2, 1});
  Case c{"", "attention_cached", {zero, keys, cache, slot, at}, {f32({2, 2, 1, 1})}};
  c.attrs = {real("scale", 1)};
  expect(c, {{5, 4, 2, 0}});
  c.attrs.push_back(number("window", 2));
  expect(c, {{5.5, 4, 3, 0}});
  c.inputs[3] = nowhere;
  expect(c, {{0, 0, 0, 0}});
  expect({"",
          "attention_cached",
          {two, keys, cache, slot, last},
          {f32({2, 1, 1, 1})},
          {real("scale", 1)}},
         {{(4 * 4 + 2 * 5 + 6) / 7.0, (1 + 2 * 2) / 3.0}});
}

TEST_CASE("values: random numbers are those of the published generator") {
  const Input counter = given(shape(PLAIT_I64, {2}), {7, 5});
  Case c{"",
         "random",
         {counter},
         {f32({1, 4})},
         {text("kind", "uniform"), number("seed", 42), number("stream", 3)}};
  expect(c, {{0.315593957901, 0.08860039711, 0.840088844299, 0.176514267922}});
  c.attrs[0] = text("kind", "normal");
  c.outputs = {f32({1, 2})};
  expect(c, {{1.289428581258, 0.802478177954}});
}

TEST_CASE("values: a sample draws the same numbers in any micro-batch") {
  Case whole{
      "", "random", {given(shape(PLAIT_I64, {2}), {3, 0})}, {f32({6, 37})}, {number("seed", 9)}};
  Case part{
      "", "random", {given(shape(PLAIT_I64, {2}), {3, 4})}, {f32({2, 37})}, {number("seed", 9)}};
  const Device device(reference());
  const Bytes all = expected(device, whole)[0], two = expected(device, part)[0];
  CHECK(Bytes(all.begin() + 4 * 37 * 4, all.end()) == two);
}

TEST_CASE("values: f32 is rounded to bf16 by the bits of the published generator") {
  Numbers x{1.001, 1.002, 1.003, 1.004, 1.005, 1.006, 1.0065, 1.007, 1.001, 1.002, 1.003, 1.004};
  const Input step = given(shape(PLAIT_F64, {}), {5});
  Case c{"",
         "round_stochastic",
         {given(f32({12}), x), step},
         {shape(PLAIT_BF16, {12})},
         {number("seed", 7), number("stream", 3)}};
  constexpr double kUp = 1.0078125;
  expect(c, {{kUp, 1, kUp, 1, 1, kUp, kUp, kUp, 1, 1, 1, kUp}});
  for (double& v : x) v = -v;
  c.inputs[0] = given(f32({12}), x);
  c.attrs.push_back(number("first", 1000));
  expect(c, {{-1, -1, -kUp, -1, -1, -kUp, -kUp, -kUp, -1, -1, -kUp, -kUp}});
}

TEST_CASE("values: rounding keeps what bf16 holds, NaN and infinity, and never overflows") {
  constexpr double kLargest = 0x1.fep127;
  const Numbers kept{0, 1, -1.0078125, kInf, -kInf, kLargest, -kLargest, 0x1p-133, kNan};
  for (double step = 0; step < 20; ++step) {
    Case c{"",
           "round_stochastic",
           {given(f32({9}), kept), given(shape(PLAIT_F64, {}), {step})},
           {shape(PLAIT_BF16, {9})}};
    expect(c, {kept});
    c.inputs[0] = given(f32({2}), {0x1.fffffep127, -0x1.fffffep127});
    c.outputs = {shape(PLAIT_BF16, {2})};
    expect(c, {{kLargest, -kLargest}});
  }
}

TEST_CASE("values: the mean of stochastically rounded numbers is the number") {
  constexpr int64_t kDraws = 1 << 18;
  // A tenth, a half, and all but a hundredth of the way from one neighbour to the next.
  for (const double at : {0.1, 0.5, 0.99})
    for (const double low : {1.0, -3.0, 0x1p-130}) {
      CAPTURE(at);
      CAPTURE(low);
      const double gap = low == 1 ? 0x1p-7 : low == -3 ? -0x1p-6 : 0x1p-133;
      const double x = static_cast<float>(low + at * gap), exact = (x - low) / gap;
      const Case c{"",
                   "round_stochastic",
                   {Input{f32({kDraws}), x, x}, given(shape(PLAIT_F64, {}), {11})},
                   {shape(PLAIT_BF16, {kDraws})},
                   {number("seed", 1), number("stream", 99)}};
      const Bytes y = expected(Device(reference()), c)[0];
      double ups = 0;
      for (int64_t i = 0; i < kDraws; ++i) {
        const double v = plait::support::read_element(PLAIT_BF16, y.data(), i);
        REQUIRE((v == low || v == low + gap));
        ups += v == low ? 0 : 1;
      }
      const double n = static_cast<double>(kDraws);
      // Five standard deviations: one run in two million is beyond.
      CHECK(std::abs(ups / n - exact) < 5 * std::sqrt(exact * (1 - exact) / n));
    }
}

TEST_CASE("values: a block of a tensor is rounded as the whole tensor is") {
  const auto round = [](std::vector<int64_t> dims, std::vector<Attr> attrs) {
    attrs.push_back(number("seed", 3));
    const Input x{f32(dims), 1.003, 1.003}, step = given(shape(PLAIT_F64, {}), {2});
    return expected(Device(reference()),
                    {"", "round_stochastic", {x, step}, {shape(PLAIT_BF16, dims)}, attrs})[0];
  };
  constexpr int64_t kRows = 12, kColumns = 20;
  const Bytes whole = round({kRows, kColumns}, {});
  const Bytes rows = round({4, kColumns}, {number("first", 4 * kColumns)});
  CHECK(rows == Bytes(whole.begin() + 4 * kColumns * 2, whole.begin() + 8 * kColumns * 2));
  // Columns 5 to 9, of which a piece begins at element 7.
  const Bytes columns = round({kRows * 5 - 7}, {number("first", 5), number("run", 5),
                                                number("stride", kColumns), number("begin", 7)});
  for (size_t i = 7; i < kRows * 5; ++i) {
    const size_t there = i / 5 * kColumns + 5 + i % 5;
    CAPTURE(i);
    CHECK(columns[2 * (i - 7)] == whole[2 * there]);
    CHECK(columns[2 * (i - 7) + 1] == whole[2 * there + 1]);
  }
}

TEST_CASE("values: map truncates, saturates and rounds to even where it stores") {
  const auto cast = [](uint32_t to, const Numbers& x, const Numbers& y) {
    const auto n = static_cast<int64_t>(x.size());
    Case c{"", "map", {given(f32({n}), x)}, {shape(to, {n})}};
    c.map = {{{PLAIT_MAP_COPY, 0, 0, 0, 0}}, {1}};
    expect(c, {y});
  };
  cast(PLAIT_I32, {2.9, -2.9, 3e9, -3e9, kNan}, {2, -2, 2147483647, -2147483648.0, 0});
  cast(PLAIT_U8, {2.9, -2.9, 256, kInf, kNan}, {2, 0, 255, 255, 0});
  cast(PLAIT_BOOL, {0, -0.0, 0.1, kNan}, {0, 0, 1, 1});
  cast(PLAIT_BF16, {1.00390625, 1.01171875, kInf, kNan}, {1, 1.015625, kInf, kNan});
  cast(PLAIT_F16, {1.00048828125, 65519, 65520, 5.9604644775390625e-8, kNan},
       {1, 65504, kInf, 5.9604644775390625e-8, kNan});
}

}  // namespace
}  // namespace conformance
