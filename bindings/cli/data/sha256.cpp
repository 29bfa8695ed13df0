#include "bindings/cli/data/sha256.hpp"

#include <cstdint>

namespace plait::cli {

void Sha256::add(const void* data, size_t size) {
  SHA256_Update(&context_, static_cast<const uint8_t*>(data), size);
}

std::string Sha256::hex() {
  char text[SHA256_DIGEST_STRING_LENGTH];
  return SHA256_End(&context_, text);
}

}  // namespace plait::cli
