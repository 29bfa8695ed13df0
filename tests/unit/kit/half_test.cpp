// kit/half.hpp: the 16-bit floats.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "kit/half.hpp"

namespace {

using namespace plait::kit;

TEST_CASE("every f16 and bf16 survives the way to f32 and back") {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto v = static_cast<uint16_t>(i);
    const float half = from_f16(v), brain = from_bf16(v);
    if (std::isnan(half))
      CHECK(std::isnan(from_f16(to_f16(half))));
    else
      REQUIRE(to_f16(half) == v);
    if (std::isnan(brain))
      CHECK(std::isnan(from_bf16(to_bf16(brain))));
    else
      REQUIRE(to_bf16(brain) == v);
  }
}

TEST_CASE("halfway between two 16-bit floats goes to the even one") {
  CHECK(to_f16(1 + 0x1p-11f) == 0x3c00);
  CHECK(to_f16(1 + 3 * 0x1p-11f) == 0x3c02);
  CHECK(to_f16(0x1p-25f) == 0);
  CHECK(to_f16(3 * 0x1p-25f) == 2);
  CHECK(to_f16(0x1.000002p-25f) == 1);
  CHECK(to_f16(65519.99f) == 0x7bff);
  CHECK(to_f16(-65520.0f) == 0xfc00);
  CHECK(to_bf16(1 + 0x1p-8f) == 0x3f80);
  CHECK(to_bf16(1 + 3 * 0x1p-8f) == 0x3f82);
  CHECK(to_bf16(0x1.fffffep127f) == 0x7f80);
}

TEST_CASE("a NaN becomes quiet and keeps its sign") {
  const float signalling = std::bit_cast<float>(0xff800001u);
  CHECK(to_bf16(signalling) == 0xffc0);
  CHECK(to_f16(signalling) == 0xfe00);
  CHECK(std::bit_cast<uint32_t>(from_f16(0xfc01)) == 0xffc02000u);
}

}  // namespace
