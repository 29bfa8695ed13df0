#include "engine/observe/json_line.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

using plait::observe::JsonLine;
using plait::observe::NumberText;

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
  line.return_to({});
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

TEST_CASE("the text of a number is kept for the same number only") {
  NumberText text;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double v : {0.0, 0.5, 0.5, -0.0, 0.0, kNan, kNan, 0.1, std::nextafter(0.1, 1.0)}) {
    CAPTURE(v);
    CHECK(text.of(v).text() == line_of(v));
    CHECK(line_of(text) == line_of(v));
  }
}

TEST_CASE("lines of JsonLine can share their beginning") {
  JsonLine line(20);
  line.open();
  line.field("a", true);
  const JsonLine::Mark mark = line.mark();
  for (const char* text : {"x", "far too long for it", "y"}) {
    line.return_to(mark);
    line.field("b", text);
    CHECK(line.full() == (std::string(text).size() > 1));
    if (!line.full()) CHECK(line.text() == std::string("{\"a\":true,\"b\":\"") + text + '"');
  }
  JsonLine empty(8);
  empty.open();
  const JsonLine::Mark first = empty.mark();
  empty.field("a", true);
  empty.return_to(first);
  empty.key("b");
  CHECK(empty.text() == "{\"b\":");
}

TEST_CASE("a name of JsonLine fits or the line overflows") {
  for (const size_t capacity : {10u, 9u}) {
    JsonLine line(capacity);
    line.key("a");
    line.key("bc");
    CHECK(line.full() == (capacity < 10));
    CHECK(line.text() == (capacity < 10 ? "" : "\"a\":,\"bc\":"));
  }
}

TEST_CASE("JsonLine writes what is measured with six decimals at most") {
  const auto text_of = [](double v) {
    JsonLine line(256);
    line.measured("t", v);
    return std::string(line.text());
  };
  CHECK(text_of(1790000001.9999) == "\"t\":1790000001.9999");
  CHECK(text_of(0.1209994) == "\"t\":0.120999");
  CHECK(text_of(0.1209996) == "\"t\":0.121");
  CHECK(text_of(20.5) == "\"t\":20.5");
  CHECK(text_of(100) == "\"t\":100");
  CHECK(text_of(0.001) == "\"t\":0.001");
  CHECK(text_of(0.0010004999) == "\"t\":0.001");
  CHECK(text_of(9.9999999) == "\"t\":10");
  CHECK(text_of(3999999999.5) == "\"t\":3999999999.5");
  // Small ones keep all digits, and so does what is no time.
  CHECK(text_of(0.00099999999) == "\"t\":0.00099999999");
  CHECK(text_of(0) == "\"t\":0");
  CHECK(text_of(-1.5) == "\"t\":-1.5");
  CHECK(text_of(4e9) == "\"t\":4e+09");
  CHECK(text_of(std::numeric_limits<double>::infinity()) == "\"t\":\"inf\"");
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-3, 9.6);
  for (int i = 0; i < 2000; ++i) {
    const double v = std::pow(10, exponent(random));
    const auto back = nlohmann::json::parse("{" + text_of(v) + "}").at("t").get<double>();
    CHECK(std::abs(back - v) <= 0.51e-6 + v * 1e-15);
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

TEST_CASE("JsonLine puts a comma behind an object, also an empty one") {
  JsonLine line(64);
  line.open();
  line.key("a");
  line.open();
  line.close();
  line.key("b");
  line.open();
  line.field("c", true);
  line.close();
  line.field("d", false);
  line.close();
  CHECK(line.text() == "{\"a\":{},\"b\":{\"c\":true},\"d\":false}");
  line.return_to({});
  line.open();
  for (const std::string name : {"e\n", "f"}) line.field(std::string_view(name), true);
  line.close();
  CHECK(line.text() == "{\"e\\n\":true,\"f\":true}");
}

TEST_CASE("JsonLine overflows without a trace") {
  JsonLine line(8);
  line.open();
  line.field("a", "0123456789");
  line.close();
  CHECK(line.full());
  CHECK(line.text().empty());
  line.return_to({});
  line.open();
  line.close();
  CHECK(line.text() == "{}");
}
