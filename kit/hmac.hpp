// HMAC-SHA256 (RFC 2104), and unpredictable bytes for its keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plait::kit {

using Digest = std::array<uint8_t, 32>;

Digest hmac(std::string_view key, std::string_view data);
std::string_view text_of(const Digest& digest);
// Compares in a time that does not depend on the position of the first difference.
bool equal_constant_time(std::string_view a, std::string_view b);

// Throws std::system_error where the system provides none.
void fill_random(char* to, size_t n);
std::string random_bytes(size_t n);

}  // namespace plait::kit
