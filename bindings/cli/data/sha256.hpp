// SHA-256, for checksums of downloads.
#pragma once

#include <sha256.h>

#include <cstddef>
#include <string>

namespace plait::cli {

class Sha256 {
 public:
  Sha256() { SHA256_Init(&context_); }
  void add(const void* data, size_t size);
  // Lower-case hexadecimal. The object is used up.
  std::string hex();

 private:
  SHA256_CTX context_;
};

}  // namespace plait::cli
