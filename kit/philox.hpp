// Counter-based random numbers: Philox4x32 with 10 rounds (Salmon et al., SC 2011). A pure function
// of counter and key, so a number depends only on its purpose, never on the caller or the time of
// the call.
#pragma once

#include <array>
#include <cstdint>

namespace plait::kit {

using PhiloxBlock = std::array<uint32_t, 4>;

inline constexpr uint32_t kPhiloxMul0 = 0xD2511F53u, kPhiloxMul1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxKey0 = 0x9E3779B9u, kPhiloxKey1 = 0xBB67AE85u;
inline constexpr int kPhiloxRounds = 10;

constexpr PhiloxBlock philox(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t a = uint64_t{kPhiloxMul0} * counter[0], b = uint64_t{kPhiloxMul1} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(a)};
    key0 += kPhiloxKey0;
    key1 += kPhiloxKey1;
  }
  return counter;
}

// The same with 64-bit words: counter (low, high), key.
constexpr PhiloxBlock philox(uint64_t low, uint64_t high, uint64_t key) {
  return philox({static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                 static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)},
                static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
}

}  // namespace plait::kit
