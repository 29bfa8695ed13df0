// Texts of errors: sizes, the nearest name, an error within an error.
#include "engine/base/error.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/error_of.hpp"

using namespace plait;

TEST_CASE("without_part leaves what is behind the part") {
  CHECK(without_part("[data] no file") == "no file");
  CHECK(without_part("no [part] in front") == "no [part] in front");
  CHECK(without_part("[data]no blank") == "[data]no blank");
  CHECK(without_part("[a] [b] two") == "[b] two");
  CHECK(without_part("") == "");
}

TEST_CASE("human_bytes: whole bytes, then two digits of the largest unit below the size") {
  struct {
    uint64_t bytes;
    const char* text;
  } const cases[] = {{0, "0 B"},
                     {1023, "1023 B"},
                     {1024, "1.00 KiB"},
                     {1536, "1.50 KiB"},
                     {(1u << 20) - 1, "1024.00 KiB"},
                     {1u << 20, "1.00 MiB"},
                     {uint64_t{5} << 30, "5.00 GiB"},
                     {uint64_t{7} << 40, "7.00 TiB"},
                     {uint64_t{3} << 50, "3.00 PiB"},
                     {uint64_t{9} << 60, "9216.00 PiB"}};
  for (const auto& c : cases) CHECK(human_bytes(c.bytes) == c.text);
}

TEST_CASE("edit_distance counts letters that are added, left out and replaced") {
  struct {
    const char *a, *b;
    unsigned distance;
  } const cases[] = {{"", "", 0},
                     {"", "abc", 3},
                     {"abc", "", 3},
                     {"same", "same", 0},
                     {"kitten", "sitting", 3},
                     {"flaw", "lawn", 2},
                     {"adam", "adamw", 1},
                     {"xadam", "adam", 1},
                     {"sgd", "gds", 2},
                     {"CrossEntropy", "cross_entropy", 0},
                     {"Zig", "zag", 1}};
  for (const auto& c : cases) {
    CAPTURE(c.a);
    CHECK(edit_distance(c.a, c.b) == c.distance);
    CHECK(edit_distance(c.b, c.a) == c.distance);
  }
}

TEST_CASE("nearest takes the first of the nearest, and none beyond a third of the word") {
  const std::vector<std::string> names = {"linear", "layer_norm", "relu", "gelu"};
  CHECK(nearest("linaer", names) == "linear");
  CHECK(nearest("elu", names) == "relu");
  CHECK(nearest("re", names) == "relu");
  CHECK(nearest("r", names) == "");
  CHECK(nearest("layernormed", names) == "layer_norm");
  CHECK(nearest("layernormalize", names) == "");
  CHECK(nearest("layernormaliz", names) == "layer_norm");
  CHECK(nearest("relu", std::vector<std::string>{}) == "");
  CHECK(did_you_mean("relu") == " (did you mean 'relu'?)");
  CHECK(did_you_mean("") == "");
}

TEST_CASE("rethrow_with keeps code and cause") {
  const auto rethrown = [](auto&& thrower) {
    return test::error_of([&] {
      try {
        thrower();
      } catch (...) {
        rethrow_with("[plan] outer");
      }
    });
  };
  const Error known = rethrown([] { fail_data("[data] inner"); });
  CHECK(known.code() == PLAIT_ERR_DATA);
  CHECK(known.text() == "[plan] outer");
  REQUIRE(known.cause());
  CHECK(known.cause()->text() == "[data] inner");
  const Error memory = rethrown([] { throw std::bad_alloc(); });
  CHECK(memory.code() == PLAIT_ERR_MEMORY);
  CHECK(memory.text() == "[plan] outer: out of memory");
  const Error other = rethrown([] { throw std::runtime_error("inner"); });
  CHECK(other.code() == PLAIT_ERR_INTERNAL);
  REQUIRE(other.cause());
  CHECK(other.cause()->text() == "inner");
}
