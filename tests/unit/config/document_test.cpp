#include <doctest/doctest.h>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/config/document.hpp"
#include "engine/config/text_scan.hpp"
#include "tests/unit/config/fake_catalog.hpp"

using namespace plait;
using namespace plait::config;

namespace {

Document parse(std::string_view text) {
  Problems problems;
  Document document = Document::parse(text, "a/x.toml", problems);
  CAPTURE(problems.text());
  REQUIRE(problems.empty());
  return document;
}

std::string problem_of(std::string_view text) {
  Problems problems;
  Document::parse(text, "x.toml", problems);
  return problems.text();
}

}  // namespace

TEST_CASE("values keep kind, order and place") {
  const Document d = parse(
      "z = 1\n[b]\n  t = \"text\"\n  r = 0.5\n  l = [1, [2]]\n  o = true\n[a]\nx = {y = -3}\n");
  CHECK(d.folder == "a");
  CHECK(d.root.keys() == std::vector<std::string>{"z", "b", "a"});
  const Node& b = d.root["b"];
  CHECK(b["t"].as_text() == "text");
  CHECK(b["t"].origin().text() == "a/x.toml:3:7");
  CHECK(b.entries()[0].origin.text() == "a/x.toml:3:3");
  CHECK(b["r"].as_real() == 0.5);
  CHECK(b["o"].as_bool());
  CHECK(b["l"].items()[1].items()[0].as_int() == 2);
  CHECK(d.root["a"]["x"]["y"].as_int() == -3);
  CHECK(d.root["none"]["at"]["all"].absent());
  Problems faults;
  CHECK(Document::parse("[", "y.toml", faults).root.origin().text() == "y.toml:1:1");
  CHECK(parse("d = [1979-05-27]").root.toml() == "{d = [a date or time]}");
  CHECK(d.root.toml() ==
        "{z = 1, b = {t = \"text\", r = 0.5, l = [1, [2]], o = true}, a = {x = {y = -3}}}");
  CHECK_THROWS_AS(b["t"].as_int(), Error);
}

TEST_CASE("an integer may be read as a real") { CHECK(parse("x = 3").root["x"].as_real() == 3.0); }

TEST_CASE("texts and keys are quoted so that they read back") {
  for (const std::string text : {"plain", "q\"uo\\te", "line\nbreak\ttab", "\x01 \x7f", "ä", ""}) {
    const Document d = parse(toml_key(text) + " = " + toml_text(text));
    CHECK(d.root.keys() == std::vector<std::string>{text});
    CHECK(d.root[text].as_text() == text);
  }
}

TEST_CASE("syntax errors are problems with line and column") {
  CHECK(contains(problem_of("a = 1\nb = \n"), "x.toml:2:"));
  CHECK(contains(problem_of("a = 1\nb = \n"), "not TOML"));
  CHECK(contains(problem_of("a = 1\na = 2\n"), "x.toml:2:"));
  CHECK(contains(problem_of("\xff\xfe"), "not TOML"));
  CHECK(contains(problem_of("a = \"\xff\xfe\""), "not TOML"));
  CHECK(contains(problem_of("a = 99999999999999999999"), "not TOML"));
  CHECK(contains(problem_of("[a\n"), "x.toml:1:"));
}

// These inputs break assertions inside the parser; see document.cpp.
TEST_CASE("texts that the parser cannot cope with are problems of their line") {
  CHECK(contains(problem_of("a = 1\n[\nb = 2\n"), "x.toml:2:1: not TOML: malformed"));
  CHECK(contains(problem_of("a = 1\n\n[[\n"), "x.toml:3:1: not TOML: malformed"));
  CHECK(contains(problem_of("a = 1\nb = {x = 1979-05-27Tp\n"), "x.toml:2:"));
  CHECK(contains(problem_of("b = 1979-05-27TT07:32:00Z"), "x.toml:1:"));
  // The last line need not end.
  const std::string last = "b = 1979-05-27TT07:32:00Z";
  CHECK(contains(problem_of("a = 1\n" + last), "x.toml:2:1: not TOML: malformed"));
  CHECK(contains(problem_of("a = 1\nc = 2\n" + last), "x.toml:3:1: not TOML: malformed"));
}

TEST_CASE("a file of bytes is none of text") {
  CHECK(contains(problem_of(std::string("\x7f\x45LF\0\0", 6)),
                 "a binary file, expected an experiment"));
}

TEST_CASE("a text in UTF-16 is told from other bytes, with a mark or without one") {
  const auto utf16 = [](std::string_view ascii, size_t zero) {
    std::string text;
    for (const char c : ascii) text += zero == 0 ? std::string{0, c} : std::string{c, 0};
    return text;
  };
  const std::string line(40, 'a'), foreign("\x3d\x04\x3d\0", 4);
  for (const std::string& text :
       {utf16("a", 0), utf16("a", 1), utf16("a = 1\n", 0), utf16("a = 1\n", 1), utf16(line, 1),
        utf16(line, 1) + foreign, "\xff\xfe" + foreign, "\xfe\xff" + foreign})
    CHECK(problem_of(text) == "x.toml: a text in UTF-16, expected UTF-8; save it as UTF-8");
  for (const std::string& text : {std::string(1, 0), std::string("\0\0", 2), foreign,
                                  "b" + utf16("a", 1), utf16("ab", 1) + utf16("ab", 0)})
    CHECK(problem_of(text) ==
          "x.toml: a binary file, expected an experiment in TOML; name an experiment");
}

TEST_CASE("characters beyond ASCII stand in quotes and comments only") {
  CHECK(parse("\xEF\xBB\xBF"
              "a = \"ä\" # ö\n'ü' = '''日\n本'''")
            .root.keys() == std::vector<std::string>{"a", "ü"});
  CHECK(problem_of("\xEF\xBB\xBF# ö\na = 1").empty());
  CHECK(contains(problem_of("a = 1\nbä = 2"),
                 "x.toml:2:2: not TOML: a character beyond ASCII outside quotes"));
  CHECK(contains(problem_of("a = 1 \xc2\xa0"), "x.toml:1:7: not TOML: a character beyond ASCII"));
  for (const char* text : {"'''x'''", "\"\"\"x\"\"\"", "\"\"\"x\"\"\"\"\""})
    CHECK(scan_text(std::string("a = ") + text + "\nbä = 2", 3).fault == ScanFault::kForeign);
  for (const char* quote : {"“", "”", "‘", "’", "„", "«", "»"})
    CHECK(contains(problem_of(std::string("a = ") + quote + "b" + quote),
                   "x.toml:1:5: not TOML: a typographic quotation mark; write \" or '"));
  CHECK(contains(problem_of("a = –1"), "x.toml:1:5: not TOML: a character beyond ASCII"));
  CHECK(contains(problem_of("a = 1 \x80"), "x.toml:1:7: not TOML: a character beyond ASCII"));
}

TEST_CASE("depth is bounded, in values and in keys, and in both together") {
  CHECK(problem_of("a = " + std::string(60, '[') + std::string(60, ']')).empty());
  CHECK(contains(problem_of("a = " + std::string(70, '[') + std::string(70, ']')), "x.toml:1:"));
  CHECK(contains(problem_of("a = " + std::string(2000000, '[')), "not TOML"));
  std::string key = "a";
  for (int i = 1; i < kMaxKeyParts; ++i) key += ".a";
  CHECK(problem_of(key + " = 1").empty());
  CHECK(contains(problem_of("b = 1\n  " + key + ".a = 1"),
                 "x.toml:2:3: a key of more than 32 parts"));
  CHECK(contains(problem_of("[" + key + " . a]"), "a key of more than 32 parts"));
  std::string huge;
  for (int i = 0; i < 1000000; ++i) huge += "a.";
  CHECK(contains(problem_of(huge + "a = 1"), "a key of more than 32 parts"));
  // The deepest accepted nesting: 60 inline tables under keys of 32 parts each.
  std::string deep;
  for (int i = 0; i < 60; ++i) deep += (i ? "{" : "") + key + " = ";
  CHECK(problem_of(deep + "1" + std::string(59, '}')).empty());
}

TEST_CASE("dots in texts, comments and numbers do not count as parts of a key") {
  const std::string dots(200, '.');
  CHECK(problem_of("a = \"" + dots + "\" # " + dots + "\nb = '" + dots + "'\nc = \"\"\"\n" + dots +
                   "\\\"\"\"\"\"\n")
            .empty());
  CHECK(problem_of("a = '''" + dots + "\n'" + dots + "'''\n").empty());
  std::string list = "a = [";
  for (int i = 0; i < 100; ++i) list += "1.5, ";
  CHECK(problem_of(list + "]").empty());
  CHECK(scan_text("\n \"a.b\".'c'.d = 1", 3).fault == ScanFault::kNone);
  const Scan scan = scan_text("\n \"a.b\".'c'.d.e = 1", 3);
  CHECK(scan.fault == ScanFault::kLongKey);
  CHECK(scan.line == 2);
  CHECK(scan.column == 2);
}

TEST_CASE("parts of a key are made of letters, digits, _ and -, or of nothing") {
  for (const std::string part : {"a", "z", "A", "Z", "0", "9", "_", "-", ""}) {
    CAPTURE(part);
    const Scan scan = scan_text("x = " + part + "." + part + "." + part + "." + part, 3);
    CHECK(scan.fault == ScanFault::kLongKey);
    CHECK(scan.column == 5);
  }
}

TEST_CASE("a file that is absent or too large is a problem") {
  Problems problems;
  const Document absent = Document::read(FileSystem::posix(), "no/such-file.toml", problems);
  CHECK(absent.file == "no/such-file.toml");
  CHECK(absent.folder == "no");
  CHECK(contains(problems.text(), "no/such-file.toml"));
  CHECK(contains(problems.text(), "there is no such file"));
  CHECK(contains(problem_of(std::string(kMaxFileBytes + 1, ' ')), "expected at most 4.00 MiB"));
}

TEST_CASE("single values: TOML, or else a text") {
  Problems problems;
  const Origin origin{"here", 0, 0};
  const auto read = [&](const char* text) { return parse_value(text, origin, problems).toml(); };
  CHECK(read("1") == "1");
  CHECK(read("[1, 2]") == "[1, 2]");
  CHECK(read("adam") == "\"adam\"");
  CHECK(read("größe") == "\"größe\"");
  CHECK(read("a b = c") == "\"a b = c\"");
  CHECK(read("runs/x.1") == "\"runs/x.1\"");
  CHECK(read("true") == "true");
  CHECK(read("1e-3") == "0.001");
  CHECK(read("1\nb = 2") == "\"1\\nb = 2\"");
  CHECK(problems.empty());
  read("[1, 2");
  read("\"open");
  CHECK(problems.size() == 2);
  CHECK(contains(problems.text(), "here: not a TOML value"));
}
