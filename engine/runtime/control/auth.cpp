#include "engine/runtime/control/auth.hpp"

#include <sha256.h>
#include <sys/random.h>

#include <cerrno>

#include "engine/base/error.hpp"

namespace plait::runtime::control {
namespace {

const uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

Digest sha256(std::string_view first, std::string_view second = {}) {
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, bytes_of(first), first.size());
  SHA256_Update(&context, bytes_of(second), second.size());
  Digest digest;
  SHA256_Final(digest.data(), &context);
  return digest;
}

std::string_view text_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

void append(std::string& out, uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(number >> shift & 0xff);
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

// RFC 2104. Once more in plugins/comm/gloo/auth.cpp: plugins may not use the engine, nor the engine
// plugins/support.
Digest hmac(std::string_view key, std::string_view data) {
  const Digest short_key = sha256(key);
  if (key.size() > SHA256_BLOCK_LENGTH) key = text_of(short_key);
  std::string inner(SHA256_BLOCK_LENGTH, '\x36'), outer(SHA256_BLOCK_LENGTH, '\x5c');
  for (size_t i = 0; i < key.size(); ++i) {
    inner[i] = static_cast<char>(inner[i] ^ key[i]);
    outer[i] = static_cast<char>(outer[i] ^ key[i]);
  }
  return sha256(outer, text_of(sha256(inner, data)));
}

bool equal_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

std::string random_bytes(size_t n) {
  std::string bytes(n, '\0');
  for (size_t filled = 0; filled < n;) {
    const ssize_t got = getrandom(bytes.data() + filled, n - filled, 0);
    if (got < 0 && errno != EINTR)
      fail_io("[control] the system provides no random numbers (getrandom)", errno);
    if (got > 0) filled += static_cast<size_t>(got);
  }
  return bytes;
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    for (const int shift : {4, 0})
      text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> shift & 15];
  return text;
}

std::string unhex(std::string_view text) {
  std::string bytes;
  if (text.size() % 2 != 0) return "";
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
  return std::string(text_of(hmac(secret, text)));
}

}  // namespace plait::runtime::control
