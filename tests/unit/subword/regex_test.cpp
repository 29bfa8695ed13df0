// The regular expressions that cut text into words. The expected matches are those of Python's
// module regex, version 2026.5.9, with \p{...}, unless a line says otherwise.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "plugins/tokenizers/subword/regex.hpp"

using plait::subword::Dialect;
using plait::subword::PatternError;
using plait::subword::Regex;

namespace {

// All matches from left to right, with | between them.
std::string matches(const std::string& pattern, const std::string& text,
                    Dialect dialect = Dialect::kPerl) {
  const Regex regex(pattern, dialect);
  Regex::Search search;
  search.begin(text);
  std::string all;
  for (size_t at = 0; at <= text.size();) {
    const auto found = regex.find(search, at);
    if (!found) break;
    if (!all.empty()) all += '|';
    all += text.substr(found->begin, found->end - found->begin);
    at = found->end + (found->end == found->begin ? 1 : 0);
  }
  return all;
}

std::string error(const std::string& pattern, const std::string& text = "") {
  try {
    matches(pattern, text);
  } catch (const PatternError& e) {
    return e.what();
  }
  return "no error";
}

struct Row {
  std::string pattern, text, expected;
};
void check(std::initializer_list<Row> rows) {
  for (const Row& row : rows) {
    CAPTURE(row.pattern);
    CHECK(matches(row.pattern, row.text) == row.expected);
  }
}

}  // namespace

TEST_CASE("choices: the first one that leads to a match") {
  check({{"a|ab", "ab", "a"},
         {"(?:a|ab)c", "abc", "abc"},
         {"(a|b|)c", "acbcc", "ac|bc|c"},
         {"x(?:|y)z", "xzxyz", "xz|xyz"}});
}

TEST_CASE("escapes of control characters, each alone and in a set") {
  for (const auto& [escape, character] :
       {std::pair{"\\t", '\t'}, {"\\f", '\f'}, {"\\v", '\v'}, {"\\r", '\r'}, {"\\n", '\n'}})
    for (const std::string& pattern : {std::string(escape), "[" + std::string(escape) + "]"}) {
      CAPTURE(pattern);
      CHECK(matches(pattern, std::string("a\t\f\v\r\nb")) == std::string(1, character));
    }
}

TEST_CASE("repetitions: greedy gives back, lazy takes more, possessive keeps") {
  check({{"a*ab", "aaab", "aaab"},
         {"a+?b", "aaab", "aaab"},
         {"a+?", "aaa", "a|a|a"},
         {"a*+ab", "aaab", ""},
         {"a{2}", "aaaaa", "aa|aa"},
         {"a{2,3}", "aaaaa", "aaa|aa"},
         {"a{2,}", "aaaaa", "aaaaa"},
         {"a{1,3}?b", "aaaab", "aaab"},
         {"a{1,3}+a", "aaaa", "aaaa"},
         {"a{1,3}+a", "aaa", ""},
         {"(?:ab){1,2}", "ababab", "abab|ab"},
         {"(?:ab)*?c", "ababc", "ababc"},
         {"(?:ab|a)*+b", "abab", "b|b"},
         {"(?:a?b)+", "abbab", "abbab"},
         {"a+?c", "aabaac", "aac"},
         {"a+?c", "aaa", ""},
         {"(?>a|ab)c", "abcac", "ac"},
         {"(?>a*)ab", "aaab", ""},
         {"\xC3\xA9*\xC3\xA9", "\xC3\xA9\xC3\xA9", "\xC3\xA9\xC3\xA9"}});
}

TEST_CASE("a brace that begins no count stands for itself") {
  check({{"a{,}", "aa{,}", "a{,}"},
         {"a{2", "aa{2", "a{2"},
         {"a{x}", "a{x}a", "a{x}"},
         {"a{1,b}", "a{1,b}", "a{1,b}"},
         {"a{,2}", "aaa", "aa|a|"}});
}

TEST_CASE("a point takes every code point but the end of a line") {
  check({{"a.c",
          "abc a\nc a\xC3\xA9"
          "c a\rc",
          "abc|a\xC3\xA9"
          "c|a\rc"},
         {".+", "ab\ncd", "ab|cd"}});
}

TEST_CASE("looking around takes nothing") {
  check({{"\\s+(?!\\S)", "a  b ", " | "},
         {"a(?=b)", "abac", "a"},
         {"(?<=a)b", "abbb", "b"},
         {"(?<!a)b", "babb", "b|b"},
         {"(?=(?:ab|a)c)\\w+", "ab abc ac", "abc|ac"},
         {"(?<![\\d.])\\d", "12 .3 4", "1|4"}});
}

TEST_CASE("sets: ranges, complements, sets in sets, categories of Unicode 16") {
  check({{"[a-c]+", "abcd", "abc"},
         {"[^a-c\\d]+", "a-x1", "-x"},
         {"[]a]+", "a]b", "a]"},
         {"[a-]+", "a-b", "a-"},
         {"[\\w-]+", "a-b c", "a-b|c"},
         {"[a[0-2]x]+", "a0x3", "a0x"},
         {"[^a[0-2]]+", "xa3b1", "x|3b"},
         {"\\pL+", "ab12c", "ab|c"},
         {"\\PN+", "ab12c", "ab|c"},
         {"\\p{L}+", "ab\xC3\xA9 1", "ab\xC3\xA9"},
         {"\\p{Lu}\\p{Ll}*", "HelloWorld", "Hello|World"},
         {"[^\\s\\p{L}\\p{N}]+", "a, b!? 1", ",|!?"},
         {"\\P{L}+", "ab12cd", "12"},
         {"\\p{^L}+", "ab12cd", "12"},
         {"\\S+",
          "a\xE3\x80\x80"
          "b",
          "a|b"},
         {"\\x41\\x{42}\\u0043", "ABC", "ABC"}});
}

TEST_CASE("(?i:...) finds other cases, also the two letters beyond ASCII that fold to them") {
  check({{"(?i:'s|'ll)", "'S'lL's", "'S|'lL|'s"},
         {"(?i)k", "kK\xE2\x84\xAA", "k|K|\xE2\x84\xAA"},  // KELVIN SIGN
         {"(?i:s)s", "\xC5\xBFsSS", "\xC5\xBFs"},          // LATIN SMALL LETTER LONG S
         {"a(?i:b)c", "aBcabC", "aBc"}});
}

TEST_CASE("the dialects differ in ^, $ and in + behind {n,m}") {
  CHECK(matches("^a", "a\na", Dialect::kPerl) == "a");
  CHECK(matches("^a", "a\na", Dialect::kOniguruma) == "a|a");
  CHECK(matches("a$", "a\na", Dialect::kOniguruma) == "a|a");
  CHECK(matches("a{2}+", "aaaa", Dialect::kPerl) == "aa|aa");
  CHECK(matches("a{2}+", "aaaa", Dialect::kOniguruma) == "aaaa");
}

TEST_CASE("what is no pattern, or more than is known, says where") {
  const auto has = [](const std::string& pattern, const std::string& text) {
    CAPTURE(pattern);
    const std::string found = error(pattern);
    CHECK_MESSAGE(found.find(text) != found.npos, found);
  };
  has("a(b", "the pattern 'a(b', at 1: a ( without its )");
  has("a)", "at 1: a ) without its (");
  has("*a", "at 0: there is nothing to repeat");
  has("^*", "at 1: there is nothing that could be repeated");
  has("a$+", "at 2: there is nothing that could be repeated");
  has("a(?=b)?", "at 6: there is nothing that could be repeated");
  has("(?<=a){2}", "at 6: there is nothing that could be repeated");
  has("[a", "a [ without its ]");
  has("[b-a]", "a range that is not ascending");
  has("a{3,2}", "the second count is below the first");
  has("\\p{Nope}", "the property 'Nope' is not known");
  has("(?<=ab)c", "a look behind at more than one character");
  has("(?<n>a)", "a group of a kind that is not known");
  has("\\q", "an escape that is not known");
  has("(?:a*)*", "a group that may match nothing is repeated without end");
  has(std::string(500, '('), "groups are nested too deeply");
  has("(?:(?:(?:a{1000}b){1000}c){1000}d)", "the pattern is too large");
  has("a\xFF", "it is not UTF-8 there");
  has("a\\", "it ends too early");
  has("a{1001}", "a count above 1000");
  has("\\x{12", "it ends too early");
  has("\\x1g", "expected hexadecimal digits");
  has("\\x{}", "no code point");
  has("\\x{110000}", "no code point");
}

TEST_CASE("a pattern that tries exponentially many ways ends in an error") {
  CHECK(error("(?:a|a)+b", std::string(64, 'a')).find("too many ways") != std::string::npos);
  CHECK(error("(?:a|a)+b", std::string(10, 'a')) == "no error");
}
