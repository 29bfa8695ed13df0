#include "kit/hmac.hpp"

#include <sha256.h>
#include <string.h>
#include <sys/random.h>

#include <cerrno>
#include <system_error>

namespace plait::kit {
namespace {

const uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// What has seen a key is wiped: stack and heap keep their bytes, and core dumps have them.
Digest sha256(std::string_view first, std::string_view second = {}) {
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, bytes_of(first), first.size());
  SHA256_Update(&context, bytes_of(second), second.size());
  Digest digest;
  SHA256_Final(digest.data(), &context);
  explicit_bzero(&context, sizeof context);
  return digest;
}

// The key as a block of SHA-256, each byte mixed with `mask`.
class KeyBlock {
 public:
  KeyBlock(std::string_view key, char mask) {
    bytes_.fill(mask);
    for (size_t i = 0; i < key.size(); ++i) bytes_[i] = static_cast<char>(bytes_[i] ^ key[i]);
  }
  ~KeyBlock() { explicit_bzero(bytes_.data(), bytes_.size()); }
  KeyBlock(const KeyBlock&) = delete;
  KeyBlock& operator=(const KeyBlock&) = delete;
  std::string_view text() const { return {bytes_.data(), bytes_.size()}; }

 private:
  std::array<char, SHA256_BLOCK_LENGTH> bytes_;
};

}  // namespace

std::string_view text_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

Digest hmac(std::string_view key, std::string_view data) {
  Digest short_key{};
  if (key.size() > SHA256_BLOCK_LENGTH) {
    short_key = sha256(key);
    key = text_of(short_key);
  }
  const Digest digest = [&] {
    const KeyBlock inner(key, '\x36'), outer(key, '\x5c');
    return sha256(outer.text(), text_of(sha256(inner.text(), data)));
  }();
  explicit_bzero(short_key.data(), short_key.size());
  return digest;
}

bool equal_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

void fill_random(char* to, size_t n) {
  for (size_t filled = 0; filled < n;) {
    const ssize_t got = getrandom(to + filled, n - filled, 0);
    if (got < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "getrandom");
    if (got > 0) filled += static_cast<size_t>(got);
  }
}

std::string random_bytes(size_t n) {
  std::string bytes(n, '\0');
  fill_random(bytes.data(), n);
  return bytes;
}

}  // namespace plait::kit
