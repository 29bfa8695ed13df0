#include "plugins/comm/gloo/auth.hpp"

#include <sha256.h>
#include <sys/random.h>

#include <plait/plugin.hpp>

namespace plait::comm_gloo {
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

}  // namespace

// RFC 2104. Duplicated in engine/runtime/control/auth.cpp: plugins may not include the engine, nor
// the engine plugins/support.
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

bool same(const Digest& a, const Digest& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference = static_cast<uint8_t>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

std::string random_bytes(size_t n) {
  std::string bytes(n, '\0');
  if (getrandom(bytes.data(), n, 0) != static_cast<ssize_t>(n))
    fail(PLAIT_ERR_IO, "[gloo] the system provides no random numbers (getrandom)");
  return bytes;
}

}  // namespace plait::comm_gloo
