#include "kit/json_depth.hpp"

#include <doctest/doctest.h>

#include <string>

using plait::kit::kMostJsonLevels;
using plait::kit::too_deep_in_json;

namespace {

constexpr size_t kNone = std::string_view::npos;

std::string nested(size_t levels, const std::string& open = "[", const std::string& close = "]") {
  std::string text;
  for (size_t i = 0; i < levels; ++i) text += open;
  text += "1";
  for (size_t i = 0; i < levels; ++i) text += close;
  return text;
}

}  // namespace

TEST_CASE("levels of a JSON text are counted, of lists and objects alike") {
  CHECK(too_deep_in_json("") == kNone);
  CHECK(too_deep_in_json(nested(kMostJsonLevels)) == kNone);
  CHECK(too_deep_in_json(nested(kMostJsonLevels + 1)) == kMostJsonLevels);
  CHECK(too_deep_in_json(nested(1'000'000)) == kMostJsonLevels);
  CHECK(too_deep_in_json(nested(kMostJsonLevels, "{\"a\":", "}")) == kNone);
  CHECK(too_deep_in_json(nested(kMostJsonLevels + 1, "{\"a\":", "}")) == 5 * kMostJsonLevels);
  // What is closed counts no more.
  const std::string half = nested(kMostJsonLevels / 2);
  CHECK(too_deep_in_json("[" + half + "," + half + "," + half + "]") == kNone);
  CHECK(too_deep_in_json("[" + half + ",[" + nested(kMostJsonLevels) + "]]") != kNone);
}

TEST_CASE("brackets in texts are no levels") {
  const std::string brackets(1000, '[');
  CHECK(too_deep_in_json("[\"" + brackets + "\"]") == kNone);
  CHECK(too_deep_in_json("[\"\\\"" + brackets + "\"]") == kNone);
  CHECK(too_deep_in_json("[\"\\\\\"," + brackets) == 5 + kMostJsonLevels);
  CHECK(too_deep_in_json("{\"" + brackets + "\": \"a\"}") == kNone);
  CHECK(too_deep_in_json("\"\\") == kNone);
}

TEST_CASE("closing brackets that open nothing are no levels") {
  CHECK(too_deep_in_json("]]}" + nested(kMostJsonLevels)) == kNone);
  CHECK(too_deep_in_json("]]}" + nested(kMostJsonLevels + 1)) == 3 + kMostJsonLevels);
}
