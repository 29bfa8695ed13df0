#include "kit/hmac.hpp"

#include <doctest/doctest.h>

#include "kit/hex.hpp"

using namespace plait::kit;

namespace {

std::string hex_hmac(const std::string& key, const std::string& data) {
  return hex(text_of(hmac(key, data)));
}

}  // namespace

TEST_CASE("HMAC-SHA256 gives the published values") {  // RFC 4231
  CHECK(hex_hmac(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex_hmac("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex_hmac(std::string(131, '\xaa'),
                 "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("random bytes are as many as asked for, and others each time") {
  CHECK(random_bytes(0).empty());
  CHECK(random_bytes(300).size() == 300);
  CHECK(random_bytes(32) != random_bytes(32));
  CHECK(equal_constant_time("abc", "abc"));
  CHECK(!equal_constant_time("abc", "abd"));
  CHECK(!equal_constant_time("abc", "ab"));
}

TEST_CASE("texts that differ in a single bit are not equal") {
  const std::string right(text_of(hmac("key", "data")));
  for (size_t bit = 0; bit < 8 * right.size(); ++bit) {
    std::string wrong = right;
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ 1 << bit % 8);
    CHECK(!equal_constant_time(right, wrong));
    CHECK(!equal_constant_time(wrong, right));
  }
  CHECK(equal_constant_time(right, std::string(right)));
}
