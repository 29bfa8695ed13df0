#include "engine/generate/text_stream.hpp"

#include <doctest/doctest.h>

using plait::generate::possible_beginning;

// The rest is tested with real tokenizers, in unit_host.
TEST_CASE("how much of a text may begin a stop text") {
  CHECK(possible_beginning("abc", "xyz") == 0);
  CHECK(possible_beginning("abx", "xyz") == 1);
  CHECK(possible_beginning("axy", "xyz") == 2);
  CHECK(possible_beginning("xyz", "xyz") == 0);  // it has come, which is another question
  CHECK(possible_beginning("aab", "aabaac") == 3);
  CHECK(possible_beginning("", "a") == 0);
  CHECK(possible_beginning("a", "a") == 0);
}
