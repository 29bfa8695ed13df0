#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "engine/base/clock.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"

using namespace plait;

TEST_CASE("reals with a format, and non-finite ones without") {
  CHECK(real_text(2.0 / 3, "%.4f") == "0.6667");
  CHECK(real_text(-std::nan(""), "%.4f") == "nan");
  CHECK(real_text(-HUGE_VAL, "%.3g") == "-inf");
}

TEST_CASE("times for lines of logs") {
  CHECK(utc_text(0) == "1970-01-01T00:00:00.000Z");
  CHECK(utc_text(1795639584.9996) == "2026-11-25T20:46:24.999Z");
  CHECK(duration_text(0.00013) == "0.13 ms");
  CHECK(duration_text(1.25) == "1.25 s");
}

TEST_CASE("strf, split, trim, join") {
  CHECK(strf("%s has %d", "x", 3) == "x has 3");
  CHECK(strf("%s", std::string(5000, 'y').c_str()).size() == 5000);
  CHECK(strf("%s", "").empty());
  CHECK(strf("%s", "x") == "x");
  CHECK(split("a||b", '|') == std::vector<std::string>{"a", "", "b"});
  CHECK(split("", '|').empty());
  CHECK(split("|", '|') == std::vector<std::string>{"", ""});
  CHECK(trim("  a b\t\n") == "a b");
  CHECK(trim(" \t").empty());
  CHECK(join(std::vector<std::string>{"a", "b"}) == "a, b");
  CHECK(join(std::vector<std::string>{}).empty());
}

TEST_CASE("glob_match") {
  struct Case {
    const char *pattern, *text;
    bool match;
  };
  const Case cases[] = {
      {"*", "", true},
      {"*", "model.fc1.weight", true},
      {"*.bias", "model.fc1.bias", true},
      {"*.bias", "bias", false},
      {"model.*.w*", "model.a.b.weight", true},
      {"a?c", "abc", true},
      {"a?c", "ac", false},
      {"", "", true},
      {"", "a", false},
      {"a", "", false},
      {"**", "abc", true},
      {"a*b*c", "aXbYbZc", true},
      {"a*b*c", "aXcYb", false},
      {"a.b", "axb", false},
  };
  for (const Case& c : cases) {
    CAPTURE(c.pattern);
    CAPTURE(c.text);
    CHECK(glob_match(c.pattern, c.text) == c.match);
  }
  // Matching must not take exponential time.
  CHECK_FALSE(glob_match("a*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(2000, 'a')));
}

TEST_CASE("real_text reads back as the same number and always looks like a real") {
  CHECK(real_text(0.1) == "0.1");
  CHECK(real_text(1) == "1.0");
  CHECK(real_text(-0.0) == "-0.0");
  CHECK(real_text(1e-8) == "1e-08");
  CHECK(real_text(1e300) == "1e+300");
  CHECK(real_text(INFINITY) == "inf");
  CHECK(real_text(-INFINITY) == "-inf");
  CHECK(real_text(NAN) == "nan");
  for (const double v : {1.0 / 3, 5e-324, std::numeric_limits<double>::max(), 123456789.123})
    CHECK(std::strtod(real_text(v).c_str(), nullptr) == v);
}

TEST_CASE("printable shows control characters") {
  CHECK(printable("a\x1b[1m\n") == "a\\x1b[1m\\x0a");
}

TEST_CASE("names of items are of few characters") {
  CHECK(fault_of_name("aZ09_-.") == "");
  CHECK(fault_of_name("") == "is empty");
  CHECK(fault_of_name(std::string(100, 'a')) == "");
  CHECK(fault_of_name(std::string(101, 'a')) == "is longer than 100 characters");
  for (const char c : {'/', ':', '@', '[', '`', '{', ' ', '\x01'}) {
    CAPTURE(c);
    CHECK(fault_of_name(std::string("a") + c) ==
          "contains the character '" + printable(std::string(1, c)) +
              "', expected letters, digits, '_', '-' and '.'");
  }
}

TEST_CASE("json_quote escapes, and repairs invalid UTF-8") {
  CHECK(json_quote("a\"b\\c\n\t\r") == R"("a\"b\\c\n\t\r")");
  CHECK(json_quote(std::string_view("\0", 1)) == R"("\u0000")");
  CHECK(json_quote("\xc3\xa4") == "\"\xc3\xa4\"");
  const std::string broken = "\"\xEF\xBF\xBD\"";
  for (const char* bad : {"\xc3", "\xff", "\x80", "\xc0"}) CHECK(json_quote(bad) == broken);
  CHECK(json_quote("\xed\xa0\x80") == "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // a surrogate
}

TEST_CASE("JsonWriter puts commas where they belong") {
  JsonWriter json;
  json.object().field("a", 1).key("b").array().value(1.5).value("x").value(true).null().end_array();
  json.key("c")
      .object()
      .end_object()
      .texts("d", std::vector<std::string>{"p", "q"})
      .field("e", NAN)
      .end_object();
  CHECK(json.text() ==
        R"({"a": 1, "b": [1.5, "x", true, null], "c": {}, "d": ["p", "q"], "e": "nan"})");
}

TEST_CASE("JsonWriter, pretty") {
  JsonWriter json(true);
  json.object().field("a", 1).key("b").array().end_array().end_object();
  CHECK(json.text() == "{\n  \"a\": 1,\n  \"b\": []\n}");
}

TEST_CASE("clock") {
  CHECK(utc_stamp(0) == "19700101-000000");
  CHECK(utc_stamp(1769903999) == "20260131-235959");
  const Stopwatch watch;
  CHECK(watch.seconds() >= 0);
  CHECK(unix_seconds() == doctest::Approx(static_cast<double>(time(nullptr))).epsilon(1e-8));
  const uint64_t before = monotonic_ns();
  CHECK(before <= monotonic_ns());
}
