// Proof of membership: HMAC-SHA256 over a secret that only the group's store hands out.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace plait::comm_gloo {

using Digest = std::array<uint8_t, 32>;

Digest hmac(std::string_view key, std::string_view data);
// Compares in a time that does not depend on where the arguments differ.
bool same(const Digest& a, const Digest& b);

// Unpredictable bytes. Throws PLAIT_ERR_IO if the system provides none.
std::string random_bytes(size_t n);

}  // namespace plait::comm_gloo
