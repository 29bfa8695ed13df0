// An f32 as a bf16 and 16 bits: every pattern of the lower half beside upper halves of every kind.
#include "kit/ops/halves.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "kit/half.hpp"

using namespace plait::kit;

namespace {

float of_bits(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

// What is wrong with x = (upper << 16) + low; "" if nothing is.
const char* fault_of(uint32_t upper, uint32_t low) {
  const float x = of_bits(upper << 16 | low);
  const Halves h = split_halves(x);
  const float back = join_halves(h);
  if (std::isnan(x)) return std::isnan(back) && std::isnan(from_bf16(h.high)) ? "" : "NaN is lost";
  if (bits_of(back) != bits_of(x)) return "bits are lost";
  // Halfway, to even would go down where the upper half is even.
  const bool down_to_even = low == 0x8000u && upper % 2 == 0;
  if (h.high != to_bf16(x) + (down_to_even ? 1 : 0)) return "the high half is not the nearest bf16";
  return "";
}

}  // namespace

TEST_CASE("two halves hold all bits of an f32, for each lower half") {
  // Of both signs and every exponent: the first and last mantissas, even and odd ones. Among them
  // are zero, denormal numbers, the last before infinity, infinity and NaN.
  int64_t faults = 0;
  for (uint32_t sign_and_exponent = 0; sign_and_exponent < 512; ++sign_and_exponent)
    for (const uint32_t mantissa : {0x00u, 0x01u, 0x3fu, 0x40u, 0x7eu, 0x7fu}) {
      const uint32_t upper = sign_and_exponent << 7 | mantissa;
      for (uint32_t low = 0; low < 0x10000u; ++low) {
        const char* fault = fault_of(upper, low);
        if (*fault == 0) continue;
        if (++faults <= 5) FAIL_CHECK(fault, ": ", upper, " ", low);
      }
    }
  CHECK(faults == 0);
}

TEST_CASE("two halves of each upper half, at the edges of the lower one") {
  for (uint32_t upper = 0; upper < 0x10000u; ++upper)
    for (const uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const char* fault = fault_of(upper, low);
      if (*fault) FAIL_CHECK(fault, ": ", upper, " ", low);
    }
}

TEST_CASE("the edges of two halves, by hand") {
  const auto check = [](uint32_t bits, uint16_t high, int16_t low) {
    CAPTURE(bits);
    const Halves h = split_halves(of_bits(bits));
    CHECK(h.high == high);
    CHECK(h.low == low);
  };
  check(0x00000000u, 0x0000, 0);
  check(0x80000000u, 0x8000, 0);        // -0
  check(0x3f807fffu, 0x3f80, 0x7fff);   // the last below the middle
  check(0x3f808000u, 0x3f81, -0x8000);  // the middle, above an even one
  check(0x3f818000u, 0x3f82, -0x8000);  // and above an odd one
  check(0x3fffffffu, 0x4000, -1);       // carries into the exponent
  check(0x00008000u, 0x0001, -0x8000);  // denormal
  check(0x007fffffu, 0x0080, -1);       // the largest denormal one becomes normal
  check(0x7f7fffffu, 0x7f80, -1);       // the largest is nearest to infinity
  check(0x7f800000u, 0x7f80, 0);
  check(0xff800000u, 0xff80, 0);
  check(0x7f800001u, 0x7fc0, 0);  // a NaN whose bits lie in the lower half alone
  check(0xffffffffu, 0xffff, 0);
}
