#include "bindings/cli/data/sha256.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

std::string sum(const std::string& text, size_t piece = 1000) {
  plait::cli::Sha256 sha;
  for (size_t at = 0; at < text.size(); at += piece)
    sha.add(text.data() + at, std::min(piece, text.size() - at));
  return sha.hex();
}

}  // namespace

TEST_CASE("sha256 gives the published sums") {
  CHECK(sum("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sum("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sum("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sum(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256 does not depend on how the bytes are split") {
  const std::string text(300, 'x');
  for (const size_t piece : {1, 7, 55, 56, 63, 64, 65, 128}) CHECK(sum(text, piece) == sum(text));
}
