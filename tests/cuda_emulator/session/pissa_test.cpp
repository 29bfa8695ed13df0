// Initial values of PiSSA on a GPU: the search for singular vectors, whose op has its kernel on the
// host, between products on the device.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tests/cuda_emulator/session/host.hpp"

using namespace cuda_emulator;

namespace {

constexpr size_t kRank = 3;
struct Start {
  std::vector<float> weight, a, b, initial_a, minus_initial_b;
};

Start start_on(const std::string& device, const std::string& name, size_t in, size_t out) {
  const OnGpu on({"run.device=" + device,
                  "model.adapters=[{type = \"pissa\", match = [\"*.weight\"], rank = 3, alpha = "
                  "3.0, iterations = 40}]"});
  const auto read = [&](const std::string& parameter, size_t n) {
    std::vector<float> values(n);
    on.session.read(parameter, std::span<float>(values));
    return values;
  };
  const std::string own = name + ".pissa.";
  return {read(name, out * in), read(own + "a", kRank * in), read(own + "b", out * kRank),
          read(own + "initial_a", kRank * in), read(own + "minus_initial_b", out * kRank)};
}

// b·a, (out,in)
std::vector<double> product(const Start& s, size_t in, size_t out) {
  std::vector<double> sum(out * in, 0);
  for (size_t i = 0; i < out; ++i)
    for (size_t k = 0; k < in; ++k)
      for (size_t r = 0; r < kRank; ++r)
        sum[i * in + k] += static_cast<double>(s.b[i * kRank + r]) * s.a[r * in + k];
  return sum;
}

}  // namespace

TEST_CASE("PiSSA finds on a GPU what it finds on the CPU, and takes it out at first") {
  for (const auto& [name, in, out] :
       {std::tuple{"model.fc.weight", 16, 16}, std::tuple{"model.head.weight", 16, 10}}) {
    CAPTURE(name);
    const auto n_in = static_cast<size_t>(in), n_out = static_cast<size_t>(out);
    const Start gpu = start_on("cuda", name, n_in, n_out), cpu = start_on("cpu", name, n_in, n_out);
    CHECK(gpu.weight == cpu.weight);
    const auto found = product(gpu, n_in, n_out), expected = product(cpu, n_in, n_out);
    double largest = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK(std::abs(found[i] - expected[i]) < 1e-5);
      largest = std::max(largest, std::abs(found[i]));
    }
    CHECK(largest > 0.05);
    CHECK(gpu.initial_a == gpu.a);
    for (size_t i = 0; i < gpu.b.size(); ++i) CHECK(gpu.minus_initial_b[i] == -gpu.b[i]);
    // Singular vectors: rows of a, and columns of b, are orthogonal.
    for (size_t r = 0; r < kRank; ++r)
      for (size_t q = 0; q < r; ++q) {
        double of_a = 0, of_b = 0;
        for (size_t k = 0; k < n_in; ++k) of_a += gpu.a[r * n_in + k] * gpu.a[q * n_in + k];
        for (size_t i = 0; i < n_out; ++i) of_b += gpu.b[i * kRank + r] * gpu.b[i * kRank + q];
        CHECK(std::abs(of_a) < 1e-5);
        CHECK(std::abs(of_b) < 1e-5);
      }
  }
}
