// XXH3 hashes of bytes, files and names. The values are the same on every machine and must never
// change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace plait {

class FileSystem;

struct Hash128 {
  uint64_t high = 0, low = 0;
  bool operator==(const Hash128&) const = default;
  // 32 hexadecimal digits, high half first, as `xxh128sum` prints it.
  std::string hex() const;
};

uint64_t hash64(const void* data, size_t size);
Hash128 hash128(const void* data, size_t size);
inline uint64_t hash64(std::string_view text) { return hash64(text.data(), text.size()); }
inline Hash128 hash128(std::string_view text) { return hash128(text.data(), text.size()); }
// 16 hexadecimal digits.
std::string hex64(uint64_t value);

// The id of a name (a parameter, a layer) in random streams.
inline uint64_t name_hash(std::string_view name) { return hash64(name); }

// An incremental hash; both digests may be read at any time.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void update(const void* data, size_t size);
  void update(std::string_view text) { update(text.data(), text.size()); }
  uint64_t digest64() const;
  Hash128 digest128() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Hash of a file's content. Errors: PLAIT_ERR_IO naming the path.
Hash128 hash128_file(FileSystem& files, const std::string& path);

}  // namespace plait
