#include <doctest/doctest.h>

#include "kit/philox.hpp"

using namespace plait::kit;
using Four = std::array<uint32_t, 4>;

// Known answers from the authors' test file (philox4x32, 10 rounds).
TEST_CASE("philox gives the known answers") {
  CHECK(philox({0, 0, 0, 0}, 0, 0) == Four{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  constexpr uint32_t kOnes = 0xffffffffu;
  CHECK(philox({kOnes, kOnes, kOnes, kOnes}, kOnes, kOnes) ==
        Four{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0xa4093822u, 0x299f31d0u) ==
        Four{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("64-bit words are the same counter, low half first") {
  CHECK(philox(0x85a308d3243f6a88ull, 0x0370734413198a2eull, 0x299f31d0a4093822ull) ==
        philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0xa4093822u, 0x299f31d0u));
  static_assert(philox(0, 0, 0)[0] == 0x6627e8d5u);
}
