// kit/float8.hpp: the 8-bit floats and their scales.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include "kit/float8.hpp"

namespace {

using namespace plait::kit;

constexpr float kInf = std::numeric_limits<float>::infinity(),
                kNan = std::numeric_limits<float>::quiet_NaN();

template <class F>
void survive() {
  for (uint32_t i = 0; i < 256; ++i) {
    const auto code = static_cast<uint8_t>(i);
    const float v = from_f8<F>(code);
    CAPTURE(i);
    if (std::isnan(v))
      CHECK((to_f8<F>(v) & 0x7f) == 0x7f);
    else if (std::isinf(v))
      CHECK(to_f8<F>(v) == code - 1);  // saturates
    else
      REQUIRE(to_f8<F>(v) == code);
  }
}

TEST_CASE("every 8-bit float survives the way to f32 and back") {
  survive<E4m3>();
  survive<E5m2>();
  CHECK(from_f8<E4m3>(0x7e) == 448);
  CHECK(from_f8<E4m3>(0x01) == 0x1p-9f);
  CHECK(std::isnan(from_f8<E4m3>(0x7f)));
  CHECK(std::isnan(from_f8<E4m3>(0xff)));
  CHECK(from_f8<E5m2>(0x7b) == 57344);
  CHECK(from_f8<E5m2>(0x01) == 0x1p-16f);
  CHECK(from_f8<E5m2>(0xfc) == -kInf);
  for (const uint8_t nan : {0x7d, 0x7e, 0x7f, 0xff}) CHECK(std::isnan(from_f8<E5m2>(nan)));
}

// Codes and conversions that tests/golden/golden_float8.py took from PyTorch.
TEST_CASE("values and roundings are those of PyTorch") {
  std::ifstream file(PLAIT_SOURCE_FOLDER "/tests/golden/float8.txt");
  std::string format, kind, first, second;
  int lines = 0;
  while (file >> format >> kind >> first >> second) {
    CAPTURE(format + " " + kind + " " + first);
    const auto from = static_cast<uint32_t>(std::stoul(first, nullptr, 16)),
               to = static_cast<uint32_t>(std::stoul(second, nullptr, 16));
    const bool wide = format == "e5m2";
    if (kind == "value") {
      const auto code = static_cast<uint8_t>(from);
      REQUIRE(std::bit_cast<uint32_t>(wide ? from_f8<E5m2>(code) : from_f8<E4m3>(code)) == to);
    } else {
      const auto v = std::bit_cast<float>(from);
      REQUIRE(uint32_t{wide ? to_f8<E5m2>(v) : to_f8<E4m3>(v)} == to);
    }
    ++lines;
  }
  CHECK(lines > 3000);
}

TEST_CASE("what is beyond the greatest number saturates, and NaN stays") {
  CHECK(to_f8<E4m3>(464) == 0x7e);
  CHECK(to_f8<E4m3>(1e30f) == 0x7e);
  CHECK(to_f8<E4m3>(-kInf) == 0xfe);
  CHECK(to_f8<E5m2>(61440) == 0x7b);
  CHECK(to_f8<E5m2>(kInf) == 0x7b);
  CHECK(to_f8<E4m3>(kNan) == 0x7f);
  CHECK(to_f8<E5m2>(-kNan) == 0xff);
}

TEST_CASE("a scale is the least power of two for which the greatest magnitude fits") {
  CHECK(f8_scale<E4m3>(448) == 1);
  CHECK(f8_scale<E4m3>(std::nextafter(448.0f, kInf)) == 2);
  CHECK(f8_scale<E4m3>(224) == 0.5f);
  CHECK(f8_scale<E5m2>(57344) == 1);
  CHECK(f8_scale<E5m2>(1) == 0x1p-15f);
  for (float most = 0x1p-90f; most < 0x1p120f; most *= 1.37f) {
    const float scale = f8_scale<E4m3>(most);
    int exponent = 0;
    CHECK(std::frexp(scale, &exponent) == 0.5f);
    CHECK(most / scale <= 448);
    CHECK(most / scale > 224);
    CHECK(f8_inverse(scale) == 1 / scale);
  }
}

TEST_CASE("scales of zeros, of tiny numbers and of what is not finite") {
  CHECK(f8_scale<E4m3>(0) == 1);
  CHECK(f8_scale<E5m2>(0) == 1);
  CHECK(f8_scale<E4m3>(1e-45f) == 0x1p-100f);
  CHECK(f8_scale<E5m2>(0x1p-86f) == 0x1p-100f);
  CHECK(f8_scale<E4m3>(std::numeric_limits<float>::max()) == 0x1p120f);
  CHECK(std::isnan(f8_scale<E4m3>(kInf)));
  CHECK(std::isnan(f8_scale<E5m2>(kNan)));
  CHECK(f8_inverse(f8_scale<E4m3>(kInf)) == 0);
}

}  // namespace
