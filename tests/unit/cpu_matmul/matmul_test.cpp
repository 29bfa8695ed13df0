// Every kernel of the CPU device's matmul against a plain loop in double.

#include "plugins/devices/cpu/matmul/matmul.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugins/devices/cpu/matmul/plain.hpp"
#include "tests/unit/cpu_matmul/buffer.hpp"

namespace plait::cpu {
namespace {

using testing::Buffer;

int64_t span(int64_t batch, int64_t stride, int64_t size) {
  return stride * std::max<int64_t>(batch - 1, 0) + size;
}

const std::vector<std::string> kKernels = {
    "jit_avx512", "jit_avx512_blocked", "jit_avx2", "jit_avx2_blocked", "onednn", "plain"};

bool available(const std::string& kernel) {
  if (kernel.starts_with("jit_avx512")) return machine_isa() == Isa::avx512;
  if (kernel.starts_with("jit_avx2")) return machine_isa() >= Isa::avx2;
  return true;
}

std::string text(const MatmulDesc& d, const std::string& kernel) {
  return kernel + " batch " + std::to_string(d.batch) + " m " + std::to_string(d.m) + " n " +
         std::to_string(d.n) + " k " + std::to_string(d.k) + " ta " +
         std::to_string(d.transpose_a) + " tb " + std::to_string(d.transpose_b) + " add " +
         std::to_string(d.accumulate) + " bias " + std::to_string(d.bias) + " act " +
         std::to_string(static_cast<int>(d.activation)) + " threads " + std::to_string(d.threads);
}

struct Operands {
  Operands(const MatmulDesc& d, uint32_t seed)
      : a(span(d.batch, d.batch_stride_a, d.m * d.k)),
        b(span(d.batch, d.batch_stride_b, d.k * d.n)),
        bias(d.n),
        c(span(d.batch, d.batch_stride_c, d.m * d.n)) {
    std::mt19937 random(seed);
    for (Buffer* buffer : {&a, &b, &bias, &c}) buffer->fill(random);
  }
  Buffer a, b, bias, c;
};

// The result and, for each element, the sum of absolute products, which bounds the rounding error.
struct Expected {
  std::vector<double> value;
  std::vector<double> size;
};

Expected expect(const MatmulDesc& d, const Operands& in) {
  const auto widen = [](const Buffer& from, bool magnitude) {
    std::vector<double> to(from.data(), from.data() + from.size());
    if (magnitude) {
      for (double& x : to) x = std::fabs(x);
    }
    return to;
  };
  Expected out;
  out.value = widen(in.c, false);
  matmul_plain(d, widen(in.a, false).data(), widen(in.b, false).data(),
               widen(in.bias, false).data(), out.value.data());
  MatmulDesc linear = d;
  linear.activation = Activation::none;
  out.size = widen(in.c, true);
  matmul_plain(linear, widen(in.a, true).data(), widen(in.b, true).data(),
               widen(in.bias, true).data(), out.size.data());
  return out;
}

// Largest error as a multiple of the bound.
double worst_error(const MatmulDesc& d, const Operands& got, const Expected& expected) {
  constexpr double kEps = std::numeric_limits<float>::epsilon();
  double worst = 0;
  for (size_t i = 0; i < got.c.size(); ++i) {
    // Slopes of the activations stay below 1.2; their own error is bounded in activation_test.cpp.
    const double bound = 1.2 * static_cast<double>(d.k + 4) * kEps * (expected.size[i] + 1e-3) +
                         4e-6 * std::fabs(expected.value[i]);
    worst = std::max(worst, std::fabs(got.c.data()[i] - expected.value[i]) / bound);
  }
  return worst;
}

// Returns the sum of squares, if the kernel was asked for it.
float run_once(const MatmulKernel& kernel, const Operands& in, Buffer& c) {
  Buffer workspace(static_cast<int64_t>(kernel.workspace_bytes() / sizeof(float) + 1));
  float squares = -1;
  kernel.run({in.a.data(), in.b.data(), in.bias.data(), c.data(), workspace.data(), &squares});
  CHECK(workspace.fences_stand());
  return squares;
}

// The same product with the sum of squares: the same C, and the squares of exactly that C.
void check_squares(MatmulDesc d, const std::string& name, const Operands& plain) {
  d.squares = true;
  Operands got(d, 7);
  const auto kernel = make_matmul(d, name);
  const float squares = run_once(*kernel, got, got.c);
  CHECK(std::memcmp(plain.c.data(), got.c.data(), got.c.size() * sizeof(float)) == 0);
  CHECK(got.c.fences_stand());
  double expected = 0;
  for (int64_t item = 0; item < d.batch; ++item)
    for (int64_t i = 0; i < d.m * d.n; ++i)
      expected += std::pow(static_cast<double>(got.c.data()[item * d.batch_stride_c + i]), 2);
  CHECK(std::fabs(squares - expected) <= 1e-5 * expected);
  MatmulDesc alone = d;
  alone.threads = 1;
  Operands same(d, 7);
  if (name.starts_with("jit"))  // the tiles, and so the sum, don't depend on the number of threads
    CHECK(run_once(*make_matmul(alone, name), same, same.c) == squares);
}

void check_kernel(const MatmulDesc& d, const std::string& name) {
  const std::string what = text(d, name);
  CAPTURE(what);
  Operands got(d, 7);
  const Expected expected = expect(d, got);
  const auto kernel = make_matmul(d, name);
  REQUIRE(kernel->name() == name);
  Buffer before = got.c;
  run_once(*kernel, got, got.c);
  CHECK(worst_error(d, got, expected) < 1.0);
  CHECK(got.c.fences_stand());
  run_once(*kernel, got, before);
  CHECK(std::memcmp(before.data(), got.c.data(), got.c.size() * sizeof(float)) == 0);
  if (!d.accumulate && !d.bias && d.activation == Activation::none) check_squares(d, name, got);
}

void check_all(const MatmulDesc& d) {
  // oneDNN can't share both operands of a batch.
  const bool one_product = d.batch > 1 && d.batch_stride_a == 0 && d.batch_stride_b == 0;
  for (const std::string& kernel : kKernels) {
    if (kernel == "onednn" && one_product) continue;
    if (available(kernel)) check_kernel(d, kernel);
  }
}

MatmulDesc shape(int64_t m, int64_t n, int64_t k) {
  MatmulDesc d;
  d.m = m;
  d.n = n;
  d.k = k;
  return d;
}

const int64_t kEdges[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 64, 100};

}  // namespace

TEST_CASE("matmul: every edge of m, n and k, in every layout") {
  int turn = 0;
  for (const int64_t m : kEdges) {
    for (const int64_t n : kEdges) {
      for (const int64_t k : kEdges) {
        // All four layouts; the epilogue and the kernels rotate through the table.
        for (int layout = 0; layout < 4; ++layout) {
          MatmulDesc d = shape(m, n, k);
          d.transpose_a = (layout & 1) != 0;
          d.transpose_b = (layout & 2) != 0;
          switch (turn++ % 5) {
            case 0:
              d.accumulate = true;
              break;
            case 1:
              d.bias = true;
              break;
            case 2:
              d.bias = true;
              d.activation = Activation::relu;
              break;
            case 3:
              d.activation = Activation::silu;
              break;
            default:
              break;
          }
          const std::string& kernel = kKernels[static_cast<size_t>(turn % 4)];  // a generated one
          if (available(kernel)) check_kernel(d, kernel);
          if (turn % 41 == 0) check_all(d);
        }
      }
    }
  }
}

TEST_CASE("matmul: every activation, with and without bias, in every layout") {
  for (int activation = 0; activation <= static_cast<int>(Activation::silu); ++activation) {
    for (int flags = 0; flags < 8; ++flags) {
      MatmulDesc d = shape(33, 50, 20);
      d.activation = static_cast<Activation>(activation);
      d.bias = (flags & 1) != 0;
      d.transpose_a = (flags & 2) != 0;
      d.transpose_b = (flags & 4) != 0;
      check_all(d);
    }
  }
}

TEST_CASE("matmul: k in several blocks, wide and tall problems") {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{32, 120, 784},
                                                                   {120, 784, 32},
                                                                   {3, 5, 2000},
                                                                   {70, 40, 1030},
                                                                   {300, 9, 300},
                                                                   {5, 700, 130},
                                                                   {400, 70, 520}}) {
    for (int flags = 0; flags < 8; ++flags) {
      MatmulDesc d = shape(m, n, k);
      d.transpose_a = (flags & 1) != 0;
      d.transpose_b = (flags & 2) != 0;
      d.accumulate = (flags & 4) != 0;
      d.bias = !d.accumulate;
      if (d.bias) d.activation = Activation::relu;
      check_all(d);
    }
  }
}

TEST_CASE("matmul: batches, shared operands and gaps between them") {
  for (int layout = 0; layout < 4; ++layout) {
    for (int shared = 0; shared < 4; ++shared) {
      MatmulDesc d = shape(17, 20, 33);
      d.batch = 5;
      d.transpose_a = (layout & 1) != 0;
      d.transpose_b = (layout & 2) != 0;
      d.batch_stride_a = (shared & 1) != 0 ? 0 : d.m * d.k;
      d.batch_stride_b = (shared & 2) != 0 ? 0 : d.k * d.n + 3;
      d.batch_stride_c = d.m * d.n;
      d.bias = true;
      d.activation = Activation::tanh;
      check_all(d);
    }
  }
}

TEST_CASE("matmul: two threads, the same bits every time") {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {96, 400, 300}, {400, 96, 300}, {64, 64, 2000}, {20, 2000, 100}}) {
    for (int layout = 0; layout < 4; ++layout) {
      MatmulDesc d = shape(m, n, k);
      d.transpose_a = (layout & 1) != 0;
      d.transpose_b = (layout & 2) != 0;
      d.threads = 2;
      check_all(d);
    }
  }
}

TEST_CASE("matmul: nothing summed leaves bias and activation, nothing wanted is left alone") {
  MatmulDesc d = shape(3, 4, 0);
  d.bias = true;
  d.activation = Activation::sigmoid;
  Operands in(d, 3);
  const auto kernel = make_matmul(d);
  CHECK(kernel->name() == "plain");
  run_once(*kernel, in, in.c);
  for (int i = 0; i < 12; ++i) {
    CHECK(in.c.data()[i] == doctest::Approx(1.0 / (1.0 + std::exp(-in.bias.data()[i % 4]))));
  }
  d = shape(3, 4, 0);
  d.accumulate = true;
  Operands kept(d, 4);
  const Buffer before = kept.c;
  run_once(*make_matmul(d), kept, kept.c);
  CHECK(std::equal(before.data(), before.data() + 12, kept.c.data()));
  for (const MatmulDesc& empty : {shape(0, 4, 5), shape(4, 0, 5), shape(0, 0, 0)}) {
    make_matmul(empty)->run({});
  }
}

TEST_CASE("matmul: a few rows times weights that are read once, with any number of threads") {
  for (const std::string kernel : {"stream_avx512", "stream_avx2"}) {
    if (!available(kernel)) continue;
    int turn = 0;
    for (int64_t m = 1; m <= 8; ++m)
      for (const int64_t n : {1, 15, 33, 600})
        for (const int64_t k : {1, 7, 16, 130, 1033}) {
          MatmulDesc d = shape(m, n, k);
          d.transpose_b = true;
          d.accumulate = turn % 4 == 0;
          d.bias = turn % 4 == 1;
          if (turn % 4 > 1) d.activation = Activation::gelu;
          ++turn;
          Operands got(d, 7);
          const Expected expected = expect(d, got);
          Buffer c = got.c;
          const std::string what = text(d, kernel);
          CAPTURE(what);
          run_once(*make_matmul(d, kernel), got, got.c);
          CHECK(worst_error(d, got, expected) < 1.0);
          CHECK(got.c.fences_stand());
          d.threads = 3;
          run_once(*make_matmul(d, kernel), got, c);
          CHECK(std::memcmp(c.data(), got.c.data(), c.size() * sizeof(float)) == 0);
        }
  }
}

TEST_CASE("matmul: weights larger than a cache are read once for a few rows") {
  MatmulDesc d = shape(1, 50304, 768);
  d.transpose_b = true;
  const std::string own = machine_isa() == Isa::avx512 ? "stream_avx512" : "stream_avx2";
  if (machine_isa() == Isa::plain) return;
  CHECK(choose_matmul(d).kernel == own);
  CHECK(choose_matmul(d, Isa::avx2).kernel == "stream_avx2");
  d.m = 8;
  d.bias = true;
  CHECK(choose_matmul(d).kernel == own);
  MatmulDesc cached = shape(4, 300, 512);
  cached.transpose_b = true;
  CHECK(choose_matmul(cached).kernel == own);
  for (const auto change :
       {+[](MatmulDesc& of) { of.m = 9; }, +[](MatmulDesc& of) { of.transpose_b = false; },
        +[](MatmulDesc& of) { of.n = 64; }, +[](MatmulDesc& of) { of.k = 16; },
        +[](MatmulDesc& of) { of.transpose_a = true; }}) {
    MatmulDesc other = d;
    change(other);
    CHECK(!choose_matmul(other).kernel.starts_with("stream"));
  }
}

TEST_CASE("matmul: a value that is not a number reaches the result through relu") {
  for (const std::string& name : kKernels) {
    if (!available(name) || name == "onednn") continue;  // oneDNN's relu turns NaN into 0
    for (const bool transpose_b : {false, true}) {
      MatmulDesc d = shape(20, 20, 20);
      d.transpose_b = transpose_b;
      d.activation = Activation::relu;
      Operands in(d, 5);
      in.a.data()[0] = std::numeric_limits<float>::quiet_NaN();
      run_once(*make_matmul(d, name), in, in.c);
      CHECK(std::isnan(in.c.data()[0]));
      CHECK(!std::isnan(in.c.data()[20]));
    }
  }
}

TEST_CASE(
    "matmul: the choice is stable, explained, and equal to the kernel that make_matmul builds") {
  MatmulDesc small = shape(32, 120, 784);
  small.transpose_b = true;
  const KernelChoice choice = choose_matmul(small);
  CHECK(choose_matmul(small).kernel == choice.kernel);
  CHECK(choose_matmul(small).workspace_bytes == choice.workspace_bytes);
  const auto kernel = make_matmul(small);
  CHECK(kernel->name() == choice.kernel);
  CHECK(kernel->workspace_bytes() == choice.workspace_bytes);
  if (machine_isa() == Isa::avx512) {
    CHECK(choice.kernel == "jit_avx512");
    CHECK(choice.why.empty());
  }
  if (machine_isa() >= Isa::avx2) {
    const KernelChoice limited = choose_matmul(small, Isa::avx2);
    CHECK(limited.kernel == "jit_avx2");
    CHECK(limited.why ==
          "jit_avx512: excluded by the caller; jit_avx512_blocked: excluded by the caller");
  }
  const KernelChoice plain = choose_matmul(small, Isa::plain);
  CHECK(plain.kernel == "plain");
  CHECK(plain.why.find("onednn: excluded by the caller") != std::string::npos);

  for (const MatmulDesc& d :
       {shape(1024, 2048, 2048), shape(4096, 64, 4096), shape(1, 1, 1), shape(0, 5, 5)}) {
    const KernelChoice one = choose_matmul(d);
    const auto built = make_matmul(d);
    CHECK(built->name() == one.kernel);
    CHECK(built->workspace_bytes() == one.workspace_bytes);
  }
  if (machine_isa() == Isa::avx512) {
    const KernelChoice large = choose_matmul(shape(1024, 2048, 2048));
    CHECK(large.kernel == "jit_avx512_blocked");
    CHECK(large.why == "jit_avx512: the operands exceed the second-level cache");
  }
}

TEST_CASE("matmul: contradictions are refused with the found and expected values") {
  const auto message = [](const MatmulDesc& d, const char* kernel) -> std::string {
    try {
      if (kernel != nullptr) {
        make_matmul(d, kernel);
      } else {
        make_matmul(d);
      }
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  MatmulDesc d = shape(2, 3, -4);
  CHECK(message(d, nullptr) == "[matmul] negative size in 1 x (2,-4)*(-4,3); expected sizes >= 0");
  d = shape(2, 3, 4);
  d.accumulate = d.bias = true;
  CHECK(
      message(d, nullptr) ==
      "[matmul] accumulate with bias or activation in 1 x (2,4)*(4,3); expected one or the other");
  d = shape(2, 3, 4);
  d.batch = 2;
  CHECK(message(d, nullptr).find("batch stride of C 0") != std::string::npos);
  d = shape(2, 3, 4);
  d.threads = 0;
  CHECK(message(d, nullptr).find("threads = 0") != std::string::npos);
  d = shape(int64_t{1} << 40, int64_t{1} << 40, 1);
  CHECK(message(d, nullptr).find("matrix too large") != std::string::npos);
  CHECK(message(shape(2, 3, 4), "fastest").find("one of stream_avx512, jit_avx512") !=
        std::string::npos);
  CHECK(message(shape(2, 3, 0), "onednn").find("nothing is summed") != std::string::npos);
}

}  // namespace plait::cpu
