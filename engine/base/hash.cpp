#include "engine/base/hash.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <vector>

#include "engine/base/files.hpp"

namespace plait {
namespace {

Hash128 from_xxh(XXH128_hash_t h) { return {h.high64, h.low64}; }

}  // namespace

std::string hex64(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string Hash128::hex() const { return hex64(high) + hex64(low); }

uint64_t hash64(const void* data, size_t size) { return XXH3_64bits(data, size); }
Hash128 hash128(const void* data, size_t size) { return from_xxh(XXH3_128bits(data, size)); }

struct Hasher::State {
  struct Free {
    void operator()(XXH3_state_t* s) const { XXH3_freeState(s); }
  };
  std::unique_ptr<XXH3_state_t, Free> xxh{XXH3_createState()};
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  if (!state_->xxh) throw std::bad_alloc();
  XXH3_128bits_reset(state_->xxh.get());
}
Hasher::~Hasher() = default;

void Hasher::update(const void* data, size_t size) {
  // XXH3 accumulates the same state for both widths; only the digests differ.
  if (size != 0) XXH3_128bits_update(state_->xxh.get(), data, size);
}
uint64_t Hasher::digest64() const { return XXH3_64bits_digest(state_->xxh.get()); }
Hash128 Hasher::digest128() const { return from_xxh(XXH3_128bits_digest(state_->xxh.get())); }

Hash128 hash128_file(FileSystem& files, const std::string& path) {
  const auto file = files.open_input(path);
  Hasher hasher;
  std::vector<char> piece(1u << 18);
  for (uint64_t at = 0; at < file->size(); at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(piece.size(), file->size() - at)));
    file->read_at(at, piece.data(), piece.size());
    hasher.update(piece.data(), piece.size());
  }
  return hasher.digest128();
}

}  // namespace plait
