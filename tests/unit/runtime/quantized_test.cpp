// Products with quantized weights: as close to those with the weights as their scales say, and
// their gradient against central differences.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "engine/program/differentiate.hpp"
#include "engine/program/op_def.hpp"
#include "tests/unit/runtime/program_runner.hpp"

using namespace plait;
using program::attr;
using program::Graph;
using program::make_shape;
using program::ValueId;

namespace {

std::vector<double> numbers(int64_t n, double salt) {
  std::vector<double> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) {
    const double x = 4 * std::fmod((static_cast<double>(i) + salt) * 0.6180339887498949, 1.0) - 2;
    v[i] = static_cast<float>(x * x * x);
  }
  return v;
}

// How far y may be from the product: half a step for each weight, and for rows of 16 bits half of
// one of theirs for each number; then some for sums in f32.
void check(const std::string& device, int64_t m, int64_t n, int64_t k) {
  CAPTURE(device);
  CAPTURE(m);
  CAPTURE(k);
  test::Runner runner(device);
  const std::vector<double> x = numbers(m * k, 1), w = numbers(n * k, 2);
  const auto out =
      runner.run({make_shape(PLAIT_F32, {m, k}), make_shape(PLAIT_F32, {n, k})}, {x, w},
                 [](Graph& g, const std::vector<ValueId>& in) {
                   const std::vector<ValueId> q = g.apply("quantize", {in[1]});
                   return std::vector{g.apply1("matmul_quantized", {in[0], q[0], q[1]}), q[1]};
                 });
  const int64_t blocks = (k + 31) / 32;
  const auto at = [](const std::vector<double>& v, int64_t i) { return v[static_cast<size_t>(i)]; };
  double share = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double y = 0, bound = 0, sum = 0;
      for (int64_t b = 0; b < blocks; ++b) {
        const double half = at(out[1], j * blocks + b) / 2;
        double most = 0, all = 0;
        for (int64_t c = b * 32; c < std::min(k, b * 32 + 32); ++c) {
          const double a = at(x, i * k + c), v = at(w, j * k + c);
          y += a * v;
          bound += std::abs(a) * half;
          sum += std::abs(a * v);
          most = std::max(most, std::abs(a));
          all += std::abs(v) + half;
        }
        bound += all * most / 65534;
      }
      bound += sum * 4e-6;
      share = std::max(share, std::abs(at(out[0], i * n + j) - y) / bound);
    }
  CHECK(share <= 1);
  CHECK(share > 0.01);  // it does round
}

}  // namespace

TEST_CASE("products with quantized weights: the error is at most half a step of each weight") {
  for (const std::string device : {"reference", "cpu"})
    for (const int64_t m : {1, 3, 4, 8, 20})
      for (const int64_t k : {7, 32, 100, 515}) check(device, m, 30, k);
}

namespace {

// loss = sum of z * (a b + bias), in double on the reference device; b (k, n) or (n, k).
void check_gradient(const std::string& format, bool transpose_b) {
  CAPTURE(format);
  CAPTURE(transpose_b);
  constexpr int64_t kRows = 3, kOutputs = 5, kInner = 67;
  test::Runner runner("reference");
  const program::Dims w =
      transpose_b ? program::Dims{kOutputs, kInner} : program::Dims{kInner, kOutputs};
  const std::vector<program::Dims> dims{{2, kRows, kInner}, w, {kOutputs}, {2, kRows, kOutputs}};
  std::vector<plait_shape> shapes;
  for (const auto& d : dims) shapes.push_back(make_shape(PLAIT_F64, d));
  test::Runnable program = runner.prepare(shapes, [&](Graph& g, std::vector<ValueId> in) {
    g.value(in[1]).requires_grad = g.value(in[3]).requires_grad = false;
    const std::vector<ValueId> q = g.apply("quantize", {in[1]}, {attr("format", format)});
    const ValueId y = g.apply1("matmul_quantized", {in[0], q[0], q[1], in[2]},
                               {attr("bias", true), attr("format", format), attr("columns", w[1]),
                                attr("transpose_b", transpose_b)});
    const ValueId loss =
        program::sum_to(g, program::binary(g, "mul", y, in[3]), make_shape(PLAIT_F64, {}));
    const auto d = program::differentiate(g, loss, {in[0], in[2]});
    return std::vector{loss, d[0], d[1]};
  });
  std::vector<std::vector<double>> in;
  for (size_t i = 0; i < dims.size(); ++i) {
    in.push_back(numbers(program::elements(shapes[i]), static_cast<double>(i) + 1));
    program.set(i, in[i]);
  }
  const auto exact = program.run();
  for (const size_t i : {size_t{0}, size_t{2}})
    for (size_t e = 0; e < in[i].size(); e += 7) {
      const auto at = [&](double h) {
        std::vector<double> moved = in[i];
        moved[e] += h;
        program.set(i, moved);
        const double loss = program.run()[0][0];
        program.set(i, in[i]);
        return loss;
      };
      constexpr double kStep = 1e-3;  // the loss is linear
      const double numeric = (at(kStep) - at(-kStep)) / (2 * kStep);
      CHECK(exact[i == 0 ? 1 : 2][e] == doctest::Approx(numeric).epsilon(1e-8));
    }
}

}  // namespace

TEST_CASE("products with quantized weights: the gradient against central differences") {
  for (const std::string format : {"int8", "nf4"})
    for (const bool transpose_b : {true, false}) check_gradient(format, transpose_b);
}
