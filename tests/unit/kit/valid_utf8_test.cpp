// replace_invalid() against the definition, and against Python's bytes.decode(errors="replace").
#include "kit/valid_utf8.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "kit/utf8.hpp"

using plait::kit::InvalidBytes;
using plait::kit::replace_invalid;

namespace {

// Every prefix of a well-formed character, from the encoder of all code points.
const std::set<std::string>& beginnings() {
  static const std::set<std::string> all = [] {
    std::set<std::string> found;
    for (char32_t code = 0; code < 0x110000; ++code) {
      if (code >= 0xD800 && code < 0xE000) continue;
      std::string character;
      plait::kit::append_utf8(character, code);
      for (size_t n = 1; n <= character.size(); ++n) found.insert(character.substr(0, n));
    }
    return found;
  }();
  return all;
}

// By the definition: a character is copied; else the longest beginning of one becomes U+FFFD.
std::string plain_replaced(const std::string& text, uint64_t& n) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (const size_t length = plait::kit::utf8_length(text, i)) {
      out += text.substr(i, length);
      i += length;
      continue;
    }
    size_t length = 1;
    while (length < 4 && i + length < text.size() &&
           beginnings().contains(text.substr(i, length + 1)))
      ++length;
    out += plait::kit::kReplacement;
    i += length;
    ++n;
  }
  return out;
}

std::string replaced(const std::string& text, InvalidBytes& invalid) {
  std::string to = "untouched";
  invalid = replace_invalid(text, to);
  if (invalid.n == 0) CHECK(to == "untouched");
  return invalid.n == 0 ? text : to;
}

}  // namespace

TEST_CASE("valid texts stay") {
  InvalidBytes invalid;
  for (const std::string text : {"", "a", "plain ASCII, longer than a word of eight bytes",
                                 "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "12345678\xC3\xA9"})
    CHECK(replaced(text, invalid) == text);
  std::string all;
  for (char32_t code = 0; code < 0x110000; code += 7)
    if (code < 0xD800 || code >= 0xE000) plait::kit::append_utf8(all, code);
  CHECK(replaced(all, invalid) == all);
  CHECK(invalid.n == 0);
}

TEST_CASE("what Python replaces") {
  struct Row {
    std::string text, expected;
    uint64_t n, first;
  };
  const std::string r = "\xEF\xBF\xBD";
  const Row rows[] = {
      {"a\x80z", "a" + r + "z", 1, 1},
      {"\xC0\x80", r + r, 2, 0},
      {"\xE2\x82", r, 1, 0},
      {"12345678\xE2\x82z", "12345678" + r + "z", 1, 8},
      {"\xED\xA0\x80", r + r + r, 3, 0},  // a surrogate
      {"\xF0\x9F\x98z", r + "z", 1, 0},
      {"\xF4\x90\x80\x80", r + r + r + r, 4, 0},  // above 0x10FFFF
      {"a\xF1\x80\x80\xE1\x80\xC2z\x80\xC2\xA2", "a" + r + r + r + "z" + r + "\xC2\xA2", 4, 1},
  };
  for (const Row& row : rows) {
    InvalidBytes invalid;
    CHECK(replaced(row.text, invalid) == row.expected);
    CHECK(invalid.n == row.n);
    CHECK(invalid.first == row.first);
  }
}

TEST_CASE("random bytes") {
  std::mt19937 random(3);
  const unsigned char some[] = {0x41, 0x7F, 0x80, 0xBF, 0xC2, 0xDF, 0xE0, 0xA0, 0xED,
                                0x9F, 0xEF, 0xF0, 0x90, 0xF4, 0x8F, 0xF5, 0xFF, 0x00};
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 24, 0);
    for (char& c : text) c = static_cast<char>(some[random() % sizeof some]);
    uint64_t n = 0;
    const std::string expected = plain_replaced(text, n);
    InvalidBytes invalid;
    CHECK(replaced(text, invalid) == expected);
    CHECK(invalid.n == n);
  }
}
