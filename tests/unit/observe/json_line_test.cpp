#include "engine/observe/json_line.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

using plait::observe::JsonLine;

namespace {

template <class T>
std::string line_of(T v) {
  JsonLine line(256);
  line.value(v);
  return std::string(line.text());
}

}  // namespace

TEST_CASE("JsonLine writes objects, nested ones too") {
  JsonLine line(256);
  line.open();
  line.field("a", int64_t{1});
  line.field("b", "x");
  line.key("c");
  line.open();
  line.field("d", true);
  line.field("e", 0.5);
  line.close();
  line.field("f", 2.0f);
  line.close();
  line.end_line();
  CHECK(line.text() == "{\"a\":1,\"b\":\"x\",\"c\":{\"d\":true,\"e\":0.5},\"f\":2}\n");
  line.clear();
  CHECK(line.text().empty());
}

TEST_CASE("JsonLine writes the shortest number that reads back the same") {
  CHECK(line_of(0.1) == "0.1");
  CHECK(line_of(0.1f) == "0.1");
  CHECK(line_of(1e-8) == "1e-08");
  CHECK(line_of(-0.0) == "-0");
  CHECK(line_of(INT64_MIN) == "-9223372036854775808");
  CHECK(line_of(std::numeric_limits<double>::quiet_NaN()) == "\"nan\"");
  CHECK(line_of(std::numeric_limits<double>::infinity()) == "\"inf\"");
  CHECK(line_of(-std::numeric_limits<float>::infinity()) == "\"-inf\"");
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto v = std::bit_cast<double>(random());
    if (!std::isfinite(v)) continue;
    CHECK(nlohmann::json::parse(line_of(v)).get<double>() == v);
  }
}

TEST_CASE("JsonLine escapes characters that JSON can't hold") {
  std::string all;
  for (int c = 1; c < 128; ++c) all += static_cast<char>(c);
  all += '\0';
  all += "\xC3\xA9";
  JsonLine line(2048);
  line.open();
  line.field(std::string_view(all), std::string_view(all));
  line.close();
  const auto parsed = nlohmann::json::parse(line.text());
  CHECK(parsed.at(all).get<std::string>() == all);
}

TEST_CASE("JsonLine overflows without a trace") {
  JsonLine line(8);
  line.open();
  line.field("a", "0123456789");
  line.close();
  CHECK(line.full());
  CHECK(line.text().empty());
  line.clear();
  line.open();
  line.close();
  CHECK(line.text() == "{}");
}
