// Products with quantized weights, of every instruction set of this machine, against a plain loop
// in double. The conformance cases take the widest set alone.
#include "plugins/devices/cpu/matmul/quantized.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/cpu_matmul/buffer.hpp"

namespace plait::cpu {
namespace {

using testing::Buffer;

// Rows (m, k); the weights lie as the desc says.
struct Product {
  explicit Product(const QuantizedDesc& desc)
      : d(desc),
        row(d.row()),
        rows(d.transpose_b ? d.n : d.k),
        a(d.m * d.k),
        scales(rows * row.floats()),
        bias(d.n),
        before(d.m * d.n),
        numbers(static_cast<size_t>(rows * row.bytes())) {
    std::mt19937 random(static_cast<uint32_t>(d.m + 31 * d.n + 1009 * d.k));
    for (Buffer* b : {&a, &scales, &bias, &before}) b->fill(random);
    for (uint8_t& q : numbers) q = static_cast<uint8_t>(1 + random() % 255);
  }
  double weight(int64_t k, int64_t j) const {
    const int64_t r = d.transpose_b ? j : k;
    return row.weight(numbers.data() + r * row.bytes(), scales.data() + r * row.floats(),
                      d.transpose_b ? k : j);
  }
  struct Expected {
    double value, tolerance;
  };
  // A few rows are rounded to 16 bits, with an error of at most their block's greatest number /
  // 65534 in each; all sums are of f32.
  Expected expected(int64_t at, int64_t j) const {
    double sum = d.accumulate ? before.data()[at * d.n + j] : d.bias ? bias.data()[j] : 0;
    double all = std::abs(sum), rounded = 0;
    for (int64_t b = 0; b < weight_blocks(d.k); ++b) {
      double most = 0, weights = 0;
      for (int64_t i = b * kWeightBlock; i < std::min(d.k, (b + 1) * kWeightBlock); ++i) {
        const double x = a.data()[at * d.k + i], w = weight(i, j);
        sum += x * w;
        all += std::abs(x * w);
        most = std::max(most, std::abs(x));
        weights += std::abs(w);
      }
      rounded += most * weights / 65534;
    }
    return {d.activation == Activation::relu ? std::max(sum, 0.0) : sum,
            4e-6 * all + (d.transpose_b && !row.nf4() && d.m <= kMostNarrowRows ? rounded : 0)};
  }

  QuantizedDesc d;
  kit::QuantRow row;
  int64_t rows;
  Buffer a, scales, bias, before;
  std::vector<uint8_t> numbers;
};

void check(const Product& p, Isa isa) {
  const QuantizedMatmul kernel(p.d, isa);
  const KernelChoice choice = QuantizedMatmul::choose(p.d, isa);
  CHECK(choice.kernel == (isa == Isa::avx512 ? "quantized_avx512" : "quantized_avx2"));
  Buffer c(p.d.m * p.d.n), workspace(static_cast<int64_t>(choice.workspace_bytes / sizeof(float)));
  if (p.d.accumulate) std::copy(p.before.data(), p.before.data() + c.size(), c.data());
  QuantizedArgs args;
  args.a = p.a.data();
  args.numbers = p.numbers.data();
  args.scales = p.scales.data();
  args.bias = p.d.bias ? p.bias.data() : nullptr;
  args.c = c.data();
  args.workspace = workspace.data();
  kernel.run(args);
  CHECK(c.fences_stand());
  CHECK(workspace.fences_stand());
  int64_t wrong = 0;  // NaN, too
  for (int64_t row = 0; row < p.d.m; ++row)
    for (int64_t j = 0; j < p.d.n; ++j) {
      const Product::Expected e = p.expected(row, j);
      if (!(std::abs(c.data()[row * p.d.n + j] - e.value) <= e.tolerance)) ++wrong;
    }
  CHECK(wrong == 0);
}

TEST_CASE("products with quantized weights: every instruction set against a plain loop") {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (machine_isa() < isa) {
      MESSAGE("the machine lacks instruction set " << static_cast<int>(isa));
      continue;
    }
    for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 40})
      for (const int64_t n : {1, 3, 16, 70, 200})
        for (const int64_t k : {0, 1, 31, 32, 33, 64, 515, 800, 1057})
          for (const kit::QuantFormat format : {kit::QuantFormat::kInt8, kit::QuantFormat::kNf4})
            for (const bool transpose_b : {true, false}) {
              if (n == 200 && (transpose_b || k > 64)) continue;
              const std::string sizes =
                  std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k);
              CAPTURE(sizes);
              CAPTURE(transpose_b);
              QuantizedDesc d;
              d.m = m, d.n = n, d.k = k;
              d.format = format, d.transpose_b = transpose_b;
              check(Product(d), isa);
              d.bias = true, d.activation = Activation::relu, d.threads = 2;
              check(Product(d), isa);
              d.bias = false, d.accumulate = true, d.activation = Activation::none;
              check(Product(d), isa);
            }
  }
}

}  // namespace
}  // namespace plait::cpu
