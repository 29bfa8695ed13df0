// The vector activations against the plain formula in double, over all magnitudes of float.

#include "plugins/devices/cpu/matmul/activation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "plugins/devices/cpu/matmul/plain.hpp"

namespace plait::cpu {
namespace {

std::vector<float> arguments() {
  std::vector<float> xs;
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 99991) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    xs.push_back(x);
    xs.push_back(-x);
  }
  for (int i = -16000; i <= 16000; ++i) xs.push_back(static_cast<float>(i) / 1000.0f);
  return xs;
}

const Activation kAll[] = {Activation::relu, Activation::tanh,      Activation::sigmoid,
                           Activation::gelu, Activation::gelu_tanh, Activation::silu};

}  // namespace

TEST_CASE("activation: accuracy over all of float") {
  const std::vector<float> xs = arguments();
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > machine_isa()) continue;
    for (const Activation activation : kAll) {
      std::vector<float> ys = xs;
      activation_function(activation, isa)(ys.data(), static_cast<int64_t>(ys.size()));
      const double relative = activation == Activation::gelu_tanh ? 2.5e-6 : 5e-7;
      double worst = 0;
      for (size_t i = 0; i < xs.size(); ++i) {
        const double y = activate_plain(activation, static_cast<double>(xs[i]));
        worst = std::max(worst, std::fabs(ys[i] - y) / (relative * std::fabs(y) + 1e-14));
      }
      CAPTURE(static_cast<int>(activation));
      CAPTURE(static_cast<int>(isa));
      CHECK(worst < 1.0);
    }
  }
}

TEST_CASE("activation: partial vectors, infinities and NaN") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Isa isa : {Isa::plain, Isa::avx2, Isa::avx512}) {
    if (isa > machine_isa()) continue;
    CHECK((activation_function(Activation::none, isa) == nullptr));
    for (const Activation activation : kAll) {
      const ActivationFunction apply = activation_function(activation, isa);
      for (int64_t count = 0; count < 40; ++count) {
        std::vector<float> values(41, 0.5f);
        apply(values.data(), count);
        for (int64_t i = 0; i < 41; ++i) {
          CHECK(values[static_cast<size_t>(i)] ==
                doctest::Approx(i < count ? activate_plain(activation, 0.5) : 0.5));
        }
      }
      float special[2] = {std::numeric_limits<float>::quiet_NaN(), kInfinity};
      apply(special, 2);
      CHECK(std::isnan(special[0]));
      const bool bounded = activation == Activation::tanh || activation == Activation::sigmoid;
      CHECK(special[1] == (bounded ? 1.0f : kInfinity));
    }
  }
}

}  // namespace plait::cpu
