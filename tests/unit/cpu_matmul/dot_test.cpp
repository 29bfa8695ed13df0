// Products of bf16 against a plain loop in double: oneDNN's, which a machine without instructions
// for them emulates, and ours.

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kit/half.hpp"
#include "plugins/devices/cpu/matmul/isa.hpp"
#include "plugins/devices/cpu/matmul/matmul.hpp"
#include "plugins/devices/cpu/matmul/plain.hpp"
#include "tests/unit/cpu_matmul/buffer.hpp"

namespace plait::cpu {
namespace {

using testing::Buffer;
using Halves = std::vector<uint16_t>;

Halves random_halves(int64_t n, std::mt19937& random) {
  std::uniform_real_distribution<float> values(-1.0f, 1.0f);
  Halves all(static_cast<size_t>(n));
  for (uint16_t& v : all) v = kit::to_bf16(values(random));
  return all;
}

std::vector<double> widened(const Halves& from, bool magnitude = false) {
  std::vector<double> to;
  for (const uint16_t v : from)
    to.push_back(magnitude ? std::fabs(kit::from_bf16(v)) : kit::from_bf16(v));
  return to;
}

std::vector<double> widened(const Buffer& from, bool magnitude = false) {
  std::vector<double> to;
  for (size_t i = 0; i < from.size(); ++i)
    to.push_back(magnitude ? std::fabs(from.data()[i]) : from.data()[i]);
  return to;
}

void check_dot(MatmulDesc d, const char* name) {
  d.half_a = d.half_b = Half::bf16;
  const std::string what = std::to_string(d.batch) + " x " + std::to_string(d.m) + "," +
                           std::to_string(d.n) + "," + std::to_string(d.k) + " ta " +
                           std::to_string(d.transpose_a) + " tb " + std::to_string(d.transpose_b) +
                           " add " + std::to_string(d.accumulate) + " threads " +
                           std::to_string(d.threads);
  CAPTURE(what);
  CAPTURE(name);
  std::mt19937 random(7);
  const Halves a = random_halves(d.batch * d.m * d.k, random),
               b = random_halves(d.batch * d.k * d.n, random);
  Halves half_c = random_halves(d.batch * d.m * d.n, random);
  Buffer bias(d.n), c(d.batch * d.m * d.n);
  bias.fill(random);
  for (size_t i = 0; i < c.size(); ++i) c.data()[i] = kit::from_bf16(half_c[i]);
  std::vector<double> expected = widened(half_c), size = widened(half_c, true);
  matmul_plain(d, widened(a).data(), widened(b).data(), widened(bias).data(), expected.data());
  MatmulDesc linear = d;
  linear.activation = Activation::none;
  matmul_plain(linear, widened(a, true).data(), widened(b, true).data(), widened(bias, true).data(),
               size.data());

  const auto run = [&](const MatmulDesc& of, void* to) {
    const auto kernel = make_matmul(of, name);
    REQUIRE(kernel->name() == name);
    Buffer workspace(static_cast<int64_t>(kernel->workspace_bytes() / sizeof(float) + 1));
    float squares = 0;
    kernel->run({reinterpret_cast<const float*>(a.data()), reinterpret_cast<const float*>(b.data()),
                 bias.data(), static_cast<float*>(to), workspace.data(), &squares});
    CHECK(workspace.fences_stand());
  };
  constexpr double kEps = std::numeric_limits<float>::epsilon();
  constexpr double kHalfSpacing = 1.0 / 256;  // of bf16, which has 8 significant bits
  Buffer plain = c;
  matmul_plain_bf16(d, {reinterpret_cast<const float*>(a.data()),
                        reinterpret_cast<const float*>(b.data()), bias.data(), plain.data()});
  run(d, c.data());
  CHECK(c.fences_stand());
  double worst = 0, worst_half = 0, worst_plain = 0;
  for (size_t i = 0; i < c.size(); ++i)
    worst_plain = std::max(
        worst_plain, std::fabs(plain.data()[i] - expected[i]) / (1.2 * kEps * (size[i] + 1e-3)));
  CHECK(worst_plain < 1);
  for (size_t i = 0; i < c.size(); ++i)
    worst = std::max(worst, std::fabs(c.data()[i] - expected[i]) /
                                (1.2 * static_cast<double>(d.k + 4) * kEps * (size[i] + 1e-3) +
                                 4e-6 * std::fabs(expected[i])));
  CHECK(worst < 1);
  const bool activates = d.activation != Activation::none;
  if (activates && name == std::string("onednn_bf16")) return;
  d.half_c = Half::bf16;
  Halves plain_half = half_c;
  if (!activates)
    matmul_plain_bf16(
        d, {reinterpret_cast<const float*>(a.data()), reinterpret_cast<const float*>(b.data()),
            bias.data(), reinterpret_cast<float*>(plain_half.data())});
  for (size_t i = 0; i < c.size() && !activates; ++i)
    CHECK(plain_half[i] == kit::to_bf16(plain.data()[i]));
  // Words of 16 bits between fences.
  Buffer fenced((static_cast<int64_t>(half_c.size()) + 1) / 2);
  auto* halves = reinterpret_cast<uint16_t*>(fenced.data());
  std::copy(half_c.begin(), half_c.end(), halves);
  run(d, halves);
  CHECK(fenced.fences_stand());
  half_c.assign(halves, halves + half_c.size());
  for (size_t i = 0; i < c.size(); ++i)
    worst_half = std::max(worst_half, std::fabs(kit::from_bf16(half_c[i]) - expected[i]) /
                                          (static_cast<double>(d.k + 4) * kEps * (size[i] + 1e-3) +
                                           kHalfSpacing * 1.01 * std::fabs(expected[i])));
  CHECK(worst_half < 1);
}

// Every layout with every epilogue; each third also as a batch.
void check_layouts(const std::vector<std::array<int64_t, 3>>& sizes, const char* name) {
  int turn = 0;
  for (const auto& [m, n, k] : sizes)
    for (int layout = 0; layout < 4; ++layout)
      for (int epilogue = 0; epilogue < 5; ++epilogue) {
        MatmulDesc d;
        d.m = m;
        d.n = n;
        d.k = k;
        d.transpose_a = (layout & 1) != 0;
        d.transpose_b = (layout & 2) != 0;
        d.accumulate = epilogue == 1;
        d.bias = epilogue > 1;
        d.activation = epilogue == 3   ? Activation::relu
                       : epilogue == 4 ? Activation::gelu_tanh
                                       : Activation::none;
        d.threads = 1 + turn++ % 2;
        check_dot(d, name);
        d.batch = 3;
        d.batch_stride_a = m * k;
        d.batch_stride_b = k * n;
        d.batch_stride_c = m * n;
        if (turn % 3 == 0) check_dot(d, name);
      }
}

}  // namespace

TEST_CASE("bf16 products by oneDNN: layouts, epilogues, batches, threads") {
  if (machine_isa() != Isa::avx512) {
    MESSAGE("not tested: this machine has no AVX-512");
    return;
  }
  check_layouts({{1, 1, 1}, {7, 17, 33}, {64, 48, 32}, {33, 100, 768}, {300, 70, 129}},
                "onednn_bf16");
}

TEST_CASE("bf16 products by pairs: layouts, epilogues, batches, threads") {
  if (!has_pair_products()) {
    MESSAGE("not tested: this machine has no AVX512_BF16");
    return;
  }
  // 600 rows and 1,030 summands are several blocks.
  check_layouts({{1, 1, 2},
                 {7, 17, 34},
                 {15, 33, 64},
                 {64, 48, 32},
                 {33, 100, 768},
                 {600, 70, 1030},
                 {29, 300, 130}},
                "jit_avx512_bf16");
}

TEST_CASE("bf16 products by pairs: sums of squares, and what they do not take") {
  if (!has_pair_products()) return;
  MatmulDesc d;
  d.m = 40, d.n = 50, d.k = 64;
  d.half_a = d.half_b = Half::bf16;
  d.squares = true;
  std::mt19937 random(3);
  const Halves a = random_halves(d.m * d.k, random), b = random_halves(d.k * d.n, random);
  const auto kernel = make_matmul(d, "jit_avx512_bf16");
  Buffer c(d.m * d.n),
      workspace(static_cast<int64_t>(kernel->workspace_bytes() / sizeof(float) + 1));
  float squares = 0;
  kernel->run({reinterpret_cast<const float*>(a.data()), reinterpret_cast<const float*>(b.data()),
               nullptr, c.data(), workspace.data(), &squares});
  double sum = 0;
  for (size_t i = 0; i < c.size(); ++i) sum += double{c.data()[i]} * double{c.data()[i]};
  CHECK(squares == doctest::Approx(sum).epsilon(1e-5));
  const auto refuses = [](const MatmulDesc& of, const char* text) {
    CHECK_THROWS_WITH_AS(make_matmul(of, "jit_avx512_bf16"), doctest::Contains(text),
                         std::invalid_argument);
  };
  d.half_c = Half::bf16;
  refuses(d, "sums of squares need a result of f32");
  d.squares = false;
  d.k = 63;
  refuses(d, "an odd number of summands");
  d.k = 4096;
  refuses(d, "too many summands for a result of bf16");
  d.half_b = Half::none;
  refuses(d, "takes two operands of bf16");
}

TEST_CASE("bf16 products by pairs: NaN stays NaN in a result of bf16") {
  if (!has_pair_products()) return;
  MatmulDesc d;
  d.m = d.n = d.k = 16;
  d.half_a = d.half_b = d.half_c = Half::bf16;
  Halves a(256, kit::to_bf16(1)), b(256, kit::to_bf16(1)), c(256);
  a[16] = kit::to_bf16(std::numeric_limits<float>::infinity());
  Buffer bias(16);
  std::fill_n(bias.data(), 16, 0.0f);
  // A NaN that rounding alone would make -0 of.
  bias.data()[3] = std::bit_cast<float>(uint32_t{0x7fffffff});
  d.bias = true;
  const auto kernel = make_matmul(d, "jit_avx512_bf16");
  Buffer workspace(static_cast<int64_t>(kernel->workspace_bytes() / sizeof(float) + 1));
  kernel->run({reinterpret_cast<const float*>(a.data()), reinterpret_cast<const float*>(b.data()),
               bias.data(), reinterpret_cast<float*>(c.data()), workspace.data()});
  CHECK(std::isnan(kit::from_bf16(c[3])));
  CHECK(std::isnan(kit::from_bf16(c[19])));
  CHECK(std::isinf(kit::from_bf16(c[16])));
  CHECK(kit::from_bf16(c[48]) == 16);
}

TEST_CASE("bf16 products by oneDNN: NaN and infinity pass an activation") {
  if (machine_isa() != Isa::avx512) return;
  MatmulDesc d;
  d.m = d.n = d.k = 16;
  d.half_a = d.half_b = Half::bf16;
  d.activation = Activation::relu;
  Halves a(256, kit::to_bf16(1)), b(256, kit::to_bf16(1));
  a[0] = kit::to_bf16(std::nanf(""));
  a[16] = kit::to_bf16(std::numeric_limits<float>::infinity());
  a[32] = kit::to_bf16(-std::numeric_limits<float>::infinity());
  Buffer c(256);
  const auto kernel = make_matmul(d, "onednn_bf16");
  Buffer workspace(static_cast<int64_t>(kernel->workspace_bytes() / sizeof(float) + 1));
  kernel->run({reinterpret_cast<const float*>(a.data()), reinterpret_cast<const float*>(b.data()),
               nullptr, c.data(), workspace.data()});
  CHECK(std::isnan(c.data()[3]));
  CHECK(c.data()[16] == std::numeric_limits<float>::infinity());
  CHECK(c.data()[32] == 0);
  CHECK(c.data()[48] == 16);
}

TEST_CASE("bf16 products by oneDNN: what they do not take") {
  MatmulDesc d;
  d.m = d.n = d.k = 64;
  d.half_a = Half::bf16;
  CHECK(choose_dot(d).kernel == "");
  CHECK(choose_dot(d).why != "");
  const MatmulDesc large{.m = 512, .n = 768, .k = 768, .half_a = Half::bf16, .half_b = Half::bf16};
  const char* best = block_instructions().tiles ? "onednn_bf16" : "jit_avx512_bf16";
  if (has_pair_products()) CHECK(choose_dot(large).kernel == best);
  if (!has_bf16_products()) CHECK(choose_dot(large).kernel == "");
  const auto refuses = [](const MatmulDesc& of, const char* kernel, const char* text) {
    CHECK_THROWS_WITH_AS(make_matmul(of, kernel), doctest::Contains(text), std::invalid_argument);
  };
  refuses(d, "onednn_bf16", "takes two operands of bf16");
  refuses(d, "onednn", "takes f32 only");
  CHECK_THROWS_WITH_AS(choose_matmul(d), doctest::Contains("A or C of 16 bits"),
                       std::invalid_argument);
  refuses(MatmulDesc{.m = 64, .n = 64, .k = 64}, "onednn_bf16", "takes two operands of bf16");
  d.half_b = d.half_c = Half::bf16;
  d.activation = Activation::gelu;
  refuses(d, "onednn_bf16", "activations and sums of squares need a result of f32");
}

}  // namespace plait::cpu
