#include "engine/base/json_value.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "engine/base/error.hpp"

namespace {

using plait::Error;
using plait::JsonValue;
using plait::parse_json;
using Kind = JsonValue::Kind;

std::string written(const std::string& text) { return plait::json_text(parse_json(text)); }

std::string refusal(const std::string& text, size_t max_depth = 64) {
  try {
    parse_json(text, max_depth);
  } catch (const Error& e) {
    CHECK(e.code() == PLAIT_ERR_DATA);
    return e.text();
  }
  return "";
}

TEST_CASE("JSON values of every kind") {
  const JsonValue v = parse_json(
      R"({"none": null, "yes": true, "no": false, "low": -9223372036854775808,
          "high": 18446744073709551615, "real": 1.50, "text": "a\u00e9\n", "list": [1, [], {}]})");
  REQUIRE(v.is(Kind::kObject));
  CHECK(v.keys.size() == 8);
  CHECK(v.items.size() == 8);
  CHECK(v.find("none")->is(Kind::kNull));
  CHECK(v.find("yes")->is(Kind::kBool));
  CHECK(v.find("yes")->whole == 1);
  CHECK(v.find("no")->whole == 0);
  CHECK(v.find("low")->is(Kind::kNegative));
  CHECK(static_cast<int64_t>(v.find("low")->whole) == INT64_MIN);
  CHECK(v.find("high")->is(Kind::kWhole));
  CHECK(v.find("high")->whole == UINT64_MAX);
  CHECK(v.find("real")->is(Kind::kReal));
  CHECK(v.find("real")->text == "1.50");
  CHECK(v.find("text")->text == "a\xc3\xa9\n");
  REQUIRE(v.find("list")->items.size() == 3);
  CHECK(v.find("list")->items[0].whole == 1);
  CHECK(v.find("list")->items[1].is(Kind::kList));
  CHECK(v.find("list")->items[2].is(Kind::kObject));
  CHECK(v.find("other") == nullptr);
}

TEST_CASE("of several items with one key the last counts") {
  CHECK(parse_json(R"({"a": 1, "b": 2, "a": 3})").find("a")->whole == 3);
}

TEST_CASE("a value is written as it was read") {
  const std::string text =
      R"({"a":[null,true,false,-1,2,1.50e3,"x\"y"],"b":{},"c":{"d":[],"e":[[1],[2]]}})";
  CHECK(written(text) == text);
  CHECK(written(" 7 ") == "7");
}

TEST_CASE("what is not JSON, or too deep, is refused") {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\"}", "1 2", "nul", "\"\xff\"", "1e999", "{'a': 1}"}) {
    CAPTURE(text);
    CHECK(refusal(text).starts_with("is not JSON ("));
  }
  CHECK(refusal("[[[1]]]", 3) == "");
  CHECK(refusal("[[[1]]]", 2) == "is nested too deeply");
  CHECK(refusal(std::string(100000, '[')) == "is nested too deeply");
}

TEST_CASE("items of the root's lists are taken as they are read") {
  std::vector<std::string> taken;
  plait::JsonLimits limits;
  limits.take = [&](const JsonValue& root, const std::string& key, const JsonValue& item) {
    taken.push_back(plait::json_text(root.items[0]) + " " + key + " " + plait::json_text(item));
    return key != "kept";
  };
  const JsonValue v = parse_json(
      R"({"v": 7, "a": [{"x": [{"y": 1}]}, [2, 3], 4, {}], "kept": [{"z": 5}], "o": {"l": [{}]}})",
      limits);
  CHECK(taken == std::vector<std::string>{"7 a {\"x\":[{\"y\":1}]}", "7 a [2,3]", "7 a {}",
                                          "7 kept {\"z\":5}"});
  CHECK(plait::json_text(v) == R"({"v":7,"a":[4],"kept":[{"z":5}],"o":{"l":[{}]}})");
  taken.clear();
  CHECK(parse_json("[[{}], [1]]", limits).items.size() == 2);  // the root is no object
  CHECK(taken.empty());
  limits.take = [](const JsonValue&, const std::string&, const JsonValue&) -> bool { throw 7; };
  CHECK_THROWS_AS(parse_json(R"({"a": [{}]})", limits), int);
}

TEST_CASE("values that exist at a time are counted") {
  plait::JsonLimits limits;
  limits.max_values = 7;
  CHECK_NOTHROW(parse_json("[1, 2, [3], {\"a\": 4}]", limits));
  CHECK_THROWS_AS(parse_json("[1, 2, [3], {\"a\": 4}, 5]", limits), Error);
  const std::string many = R"({"a": [{"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}, {"x": 5}]})";
  CHECK_THROWS_AS(parse_json(many, limits), Error);
  limits.take = [](const JsonValue&, const std::string&, const JsonValue&) { return true; };
  CHECK(parse_json(many, limits).find("a")->items.empty());
  try {
    parse_json("[1,2,3,4,5,6,7]", limits);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.text() == "has too many values for its size");
  }
}

}  // namespace
