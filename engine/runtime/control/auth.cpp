#include "engine/runtime/control/auth.hpp"

#include <system_error>

#include "engine/base/error.hpp"

namespace plait::runtime::control {
namespace {

void append(std::string& out, uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(number >> shift & 0xff);
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

[[noreturn]] void fail_random(const std::system_error& e) {
  fail_io("[control] the system provides no random numbers (getrandom)", e.code().value());
}

}  // namespace

std::string random_bytes(size_t n) {
  try {
    return kit::random_bytes(n);
  } catch (const std::system_error& e) {
    fail_random(e);
  }
}

kit::Secret random_secret() {
  try {
    return kit::Secret::filled(kSecretSize, [](char* room) {
      kit::fill_random(room, kSecretSize);
      return kSecretSize;
    });
  } catch (const std::system_error& e) {
    fail_random(e);
  }
}

std::string unhex(std::string_view text) {
  std::string bytes;
  if (text.size() % 2 != 0) return "";
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]), low = digit(text[i + 1]);
    if (high < 0 || low < 0) return "";
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

std::string proof(std::string_view secret, const Challenge& c, Side side) {
  // Every part has a fixed size, so no two challenges give the same text.
  std::string text =
      side == Side::kClient ? "plait control 1 client\n" : "plait control 1 server\n";
  text += c.run + c.client_nonce + c.server_nonce;
  append(text, c.rank);
  append(text, c.size);
  return std::string(kit::text_of(kit::hmac(secret, text)));
}

}  // namespace plait::runtime::control
