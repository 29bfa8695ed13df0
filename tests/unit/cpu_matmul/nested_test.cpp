// Kernels prepared for several threads that run where OpenMP grants one: inside of a parallel
// region of the host.
#include <doctest/doctest.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "kit/half.hpp"
#include "plugins/devices/cpu/matmul/matmul.hpp"
#include "plugins/devices/cpu/matmul/plain.hpp"
#include "tests/unit/cpu_matmul/buffer.hpp"

namespace plait::cpu {
namespace {

using testing::Buffer;

// Runs f on one thread of a region of two.
template <class F>
void in_region(const F& f) {
  int threads = 0;
#pragma omp parallel num_threads(2)
  {
#pragma omp single
    {
      threads = omp_get_num_threads();
      f();
    }
  }
  CHECK(threads > 0);
}

// The greatest error in units of what rounding of k terms below 1 allows.
double error_of(const Buffer& c, const std::vector<double>& expected, int64_t k) {
  const double allowed = static_cast<double>(k) * std::numeric_limits<float>::epsilon();
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, std::fabs(c.data()[i] - expected[i]) / allowed);
  return std::isfinite(worst) ? worst : 1e300;
}

TEST_CASE("a product prepared for several threads is whole inside of a parallel region") {
  constexpr int64_t kSide = 320;
  std::mt19937 random(9);
  std::uniform_real_distribution<float> values(-1.0f, 1.0f);
  Buffer a(kSide * kSide), b(kSide * kSide);
  std::vector<uint16_t> low_a, low_b;
  std::vector<double> wide_a, wide_b;
  for (size_t i = 0; i < a.size(); ++i) {
    low_a.push_back(kit::to_bf16(values(random)));
    low_b.push_back(kit::to_bf16(values(random)));
    wide_a.push_back(a.data()[i] = kit::from_bf16(low_a[i]));
    wide_b.push_back(b.data()[i] = kit::from_bf16(low_b[i]));
  }
  MatmulDesc d;
  d.m = d.n = d.k = kSide;
  std::vector<double> expected(a.size());
  matmul_plain<double>(d, wide_a.data(), wide_b.data(), nullptr, expected.data());
  d.threads = 4;
  int seen = 0;
  for (const char* name : {"onednn", "onednn_bf16", "jit_avx512_bf16", "jit_avx512_blocked",
                           "jit_avx2_blocked", "jit_avx512", "jit_avx2", "plain"}) {
    CAPTURE(name);
    MatmulDesc own = d;
    const bool low = std::string_view(name).ends_with("bf16");
    if (low) own.half_a = own.half_b = Half::bf16;
    std::unique_ptr<MatmulKernel> outside, inside;
    try {
      outside = make_matmul(own, std::string_view(name));
      in_region([&] { inside = make_matmul(own, std::string_view(name)); });
    } catch (const std::invalid_argument&) {
      continue;  // not on this machine
    }
    ++seen;
    const auto run = [&](const MatmulKernel& kernel) {
      Buffer c(kSide * kSide),
          workspace(static_cast<int64_t>(kernel.workspace_bytes() / sizeof(float) + 1));
      for (size_t i = 0; i < c.size(); ++i) c.data()[i] = std::nanf("");
      kernel.run({low ? reinterpret_cast<const float*>(low_a.data()) : a.data(),
                  low ? reinterpret_cast<const float*>(low_b.data()) : b.data(), nullptr, c.data(),
                  workspace.data()});
      return error_of(c, expected, kSide);
    };
    for (const MatmulKernel* kernel : {outside.get(), inside.get()}) {
      CHECK(run(*kernel) < 1);
      double nested = 0;
      in_region([&] { nested = run(*kernel); });
      CHECK(nested < 1);
      CHECK(run(*kernel) < 1);
    }
  }
  CHECK(seen >= 2);
}

}  // namespace
}  // namespace plait::cpu
