#include "kit/hmac.hpp"

#include <sha256.h>
#include <sys/random.h>

#include <cerrno>
#include <system_error>

namespace plait::kit {
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

}  // namespace

std::string_view text_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

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
      throw std::system_error(errno, std::generic_category(), "getrandom");
    if (got > 0) filled += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace plait::kit
