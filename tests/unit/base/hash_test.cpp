#include <doctest/doctest.h>

#include "engine/base/hash.hpp"

using namespace plait;

TEST_CASE("the hashes equal XXH3") {
  // As printed by `xxhsum -H3` and `xxhsum -H2`.
  CHECK(hex64(hash64("")) == "2d06800538d394c2");
  CHECK(hash128("").hex() == "99aa06d3014798d86001c324468d497f");
  CHECK(hash64("abc") == name_hash("abc"));
  CHECK(hash64("abc") != hash64("abd"));
}

TEST_CASE("piece by piece is the same as at once") {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>('a' + i % 26);
  Hasher hasher;
  hasher.update(text.substr(0, 1));
  hasher.update("");
  hasher.update(text.substr(1, 3000));
  CHECK(hasher.digest64() == hash64(text.substr(0, 3001)));
  hasher.update(text.substr(3001));
  CHECK(hasher.digest128() == hash128(text));
  CHECK(hasher.digest64() == hash64(text));
}
