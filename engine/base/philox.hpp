// Counter-based random numbers: Philox4x32 with 10 rounds (Salmon et al., SC 2011). A pure function
// of counter and key, so a number depends only on its purpose, never on the caller or the time of
// the call.
#pragma once

#include <array>
#include <cstdint>

namespace plait {

constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                         std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

// The same with 64-bit words: counter (low, high), key.
constexpr std::array<uint32_t, 4> philox(uint64_t low, uint64_t high, uint64_t key) {
  return philox({static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                 static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)},
                {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
}

}  // namespace plait
