#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/plugin/inspect.hpp"
#include "tests/unit/plugin/fixtures.hpp"

using namespace plait;
using namespace plait::plugin;

namespace {

struct Symbol {
  const char* name;
  int binding;  // 0: local, 1: global, 2: weak
  int kind;     // 1: data, 2: code, 3: a section, 4: a file
  int visibility;
  bool defined;
};

struct RawNote {
  std::string owner;
  uint32_t type;
  std::string text;
};

// The smallest ELF file with a note, created byte by byte: header, note, names, symbols if there
// are any, section headers.
struct TinyElf {
  bool wide, big;
  std::vector<unsigned char> bytes;
  size_t note = 0, note_size = 0;  // all notes

  void put(uint64_t value, int n) {
    for (int i = 0; i < n; ++i)
      bytes.push_back(static_cast<unsigned char>(value >> 8 * (big ? n - 1 - i : i)));
  }
  void word(uint64_t value) { put(value, wide ? 8 : 4); }
  void pad() {
    while (bytes.size() % 8) bytes.push_back(0);
  }
  void set(size_t at, uint64_t value, int n) {
    for (int i = 0; i < n; ++i)
      bytes[at + i] = static_cast<unsigned char>(value >> 8 * (big ? n - 1 - i : i));
  }
  void section(uint32_t name, uint32_t type, uint64_t offset, uint64_t size, uint32_t link = 0,
               uint64_t entry_size = 0) {
    put(name, 4), put(type, 4), word(0), word(0), word(offset), word(size), put(link, 4), put(0, 4),
        word(4), word(entry_size);
  }
  void add(const RawNote& n) {
    put(n.owner.size() + 1, 4), put(n.text.size() + 1, 4), put(n.type, 4);
    for (const std::string* one : {&n.owner, &n.text}) {
      for (const char c : *one) bytes.push_back(static_cast<unsigned char>(c));
      do bytes.push_back(0);
      while (bytes.size() % 4);
    }
  }
  // Takes the section headers away; a segment names the notes, behind one of another kind.
  void leave_sections(bool note_first = false) {
    const uint64_t headers = bytes.size(), size = wide ? 56 : 32;
    set(wide ? 40 : 32, 0, wide ? 8 : 4), set(wide ? 60 : 48, 0, 2);
    set(wide ? 32 : 28, headers, wide ? 8 : 4);
    set(wide ? 54 : 42, size, 2), set(wide ? 56 : 44, 2, 2);
    bytes.resize(headers + 2 * size);
    for (const uint64_t i : {uint64_t{0}, uint64_t{1}}) {
      const size_t at = headers + (note_first ? 1 - i : i) * size;
      set(at, i == 0 ? 1 : 4, 4);
      set(at + (wide ? 8 : 4), i == 0 ? 0 : note, wide ? 8 : 4);
      set(at + (wide ? 32 : 16), i == 0 ? headers : note_size, wide ? 8 : 4);
    }
  }
  void symbol(const Symbol& s, uint64_t name) {
    const int info = s.binding << 4 | s.kind;
    put(name, 4);
    if (!wide) put(0, 4), put(0, 4);
    put(info, 1), put(s.visibility, 1), put(s.defined ? 1 : 0, 2);
    if (wide) put(0, 8), put(0, 8);
  }
  TinyElf(bool is_wide, bool is_big, uint32_t machine, const std::string& text,
          const std::vector<Symbol>& symbols = {}, const std::vector<RawNote>& before = {})
      : wide(is_wide), big(is_big) {
    bytes = {0x7f,
             'E',
             'L',
             'F',
             static_cast<unsigned char>(wide ? 2 : 1),
             static_cast<unsigned char>(big ? 2 : 1),
             1};
    bytes.resize(16);
    put(3, 2), put(machine, 2), put(1, 4), word(0), word(0);
    const size_t table_at = bytes.size();
    word(0), put(0, 4), put(0, 2), put(0, 2), put(0, 2), put(wide ? 64 : 40, 2),
        put(symbols.empty() ? 3 : 5, 2), put(2, 2);
    pad();
    note = bytes.size();
    for (const RawNote& other : before) add(other);
    add({"Plait", 1, text});
    pad();
    note_size = bytes.size() - note;
    const size_t names = bytes.size();
    const char all[] = "\0.note.plait\0.shstrtab";
    for (const char c : all) bytes.push_back(static_cast<unsigned char>(c));
    const size_t names_size = bytes.size() - names;
    pad();
    const size_t table = bytes.size();
    std::string texts(1, '\0');
    for (const Symbol& s : symbols) {
      symbol(s, texts.size());
      texts += std::string(s.name) + '\0';
    }
    const size_t table_size = bytes.size() - table, texts_at = bytes.size();
    bytes.insert(bytes.end(), texts.begin(), texts.end());
    pad();
    set(table_at, bytes.size(), wide ? 8 : 4);
    section(0, 0, 0, 0);
    section(1, 7, note, note_size);
    section(13, 3, names, names_size);
    if (symbols.empty()) return;
    section(0, 11, table, table_size, 4, wide ? 24 : 16);
    section(0, 3, texts_at, texts.size());
  }
  Inspection inspect() const { return plugin::inspect(std::as_bytes(std::span(bytes)), "/x.so"); }
};

const char kNote[] = "abi=1;name=layer-x;version=2.0;sanitizer=none;later=word";

}  // namespace

TEST_CASE("files of any machine, width and byte order are read") {
  struct Case {
    bool wide, big;
    uint32_t machine;
    const char* name;
  };
  for (const Case& c : {Case{true, false, 62, "x86-64"},
                        {true, false, 183, "aarch64"},
                        {false, false, 40, "arm"},
                        {true, true, 22, "s390"},
                        {false, true, 8, "machine 8"}}) {
    const Inspection found = TinyElf(c.wide, c.big, c.machine, kNote).inspect();
    CHECK(found.bits == (c.wide ? 64u : 32u));
    CHECK(found.big_endian == c.big);
    CHECK(found.machine_name == c.name);
    CHECK(found.shared);
    REQUIRE(found.note);
    CHECK(found.note->abi == 1);
    CHECK(found.note->name == "layer-x");
    CHECK(found.note->version == "2.0");
    CHECK(found.note->sanitizer == "none");
    CHECK(found.exports.empty());
  }
  CHECK(contains(TinyElf(true, true, 22, kNote).inspect().json(),
                 R"("machine": "s390", "bits": 64, "byte_order": "big", "shared_library": true, )"
                 R"("matches_this_machine": false, "note": {"abi": 1, )"));
}

TEST_CASE("exports are the defined symbols that others see") {
  const std::vector<Symbol> symbols = {
      {"weak", 2, 2, 0, true},      {"code", 1, 2, 0, true},    {"data", 1, 1, 0, true},
      {"protected", 1, 2, 3, true}, {"local", 0, 2, 0, true},   {"hidden", 1, 2, 2, true},
      {"internal", 1, 2, 1, true},  {"needed", 1, 2, 0, false}, {"local_choice", 0, 10, 0, true},
      {"section", 1, 3, 0, true},   {"file.c", 1, 4, 0, true}};
  for (const bool wide : {true, false})
    for (const bool big : {true, false})
      CHECK(TinyElf(wide, big, 62, kNote, symbols).inspect().exports ==
            std::vector<std::string>{"code", "data", "protected", "weak"});
}

TEST_CASE("a note that says too little is an error") {
  for (const char* text : {"abi=1", "name=x", "abi=one;name=x", "abi=;name=x", "abi=1;name="})
    CHECK(contains(error_of([&] { TinyElf(true, false, 62, text).inspect(); }).text(),
                   "expected abi=NUMBER;name=NAME"));
}

TEST_CASE("the note is found behind others, and by a segment where there are no sections") {
  const std::vector<RawNote> others = {{"GNU", 3, "a build id"},
                                       {"Plait", 7, "abi=9;name=of-another-type"},
                                       {"Linux", 1, "abi=9;name=of-another-owner"},
                                       {"Plai", 1, "abi=9;name=of-a-shorter-owner"}};
  for (const bool wide : {true, false})
    for (const bool big : {true, false}) {
      TinyElf file(wide, big, 62, kNote, {}, others);
      REQUIRE(file.inspect().note);
      CHECK(file.inspect().note->name == "layer-x");
      file.leave_sections();
      REQUIRE(file.inspect().note);
      CHECK(file.inspect().note->name == "layer-x");
      file.set(wide ? 40 : 32, 64, wide ? 8 : 4);  // a place of headers, but none there
      CHECK(file.inspect().note.has_value());
      file.set(wide ? 54 : 42, wide ? 55 : 31, 2);  // too short for a segment
      CHECK_FALSE(file.inspect().note);
      TinyElf first(wide, big, 62, kNote);
      first.leave_sections(true);
      CHECK(first.inspect().note.has_value());
    }
}

TEST_CASE("a note has up to 4096 bytes") {
  const std::string note = std::string(kNote) + ";more=";
  const auto found = [&](size_t size) {  // with the zero behind it
    return TinyElf(true, false, 62, note + std::string(size - 1 - note.size(), 'x'))
        .inspect()
        .note.has_value();
  };
  CHECK(found(4096));
  CHECK_FALSE(found(4097));
}

TEST_CASE("what is wrong with a damaged file is said") {
  const auto fault = [](const TinyElf& file) { return error_of([&] { file.inspect(); }).text(); };
  for (const auto& [bits, order] :
       {std::pair{0, 1}, std::pair{3, 1}, std::pair{1, 0}, std::pair{2, 3}}) {
    TinyElf file(true, false, 62, kNote);
    file.set(4, static_cast<uint64_t>(bits), 1), file.set(5, static_cast<uint64_t>(order), 1);
    CHECK(contains(fault(file), "unknown class " + std::to_string(bits) + " or byte order " +
                                    std::to_string(order)));
  }
  for (const bool wide : {true, false}) {
    TinyElf file(wide, false, 62, kNote);
    file.set(wide ? 62 : 50, 3, 2);
    CHECK(contains(fault(file), "the names of the sections are missing"));
    file.set(wide ? 60 : 48, 1, 2);
    CHECK(contains(fault(file), "the names of the sections are missing"));
    file = TinyElf(wide, false, 62, kNote);
    file.set(wide ? 58 : 46, wide ? 63 : 39, 2);
    CHECK(contains(fault(file), "a section header has " + std::to_string(wide ? 63 : 39)));
    file = TinyElf(wide, false, 62, kNote, {{"code", 1, 2, 0, true}});
    const size_t entry_size = file.bytes.size() - (wide ? 2 * 64 : 2 * 40) + (wide ? 56 : 36);
    file.set(entry_size, wide ? 23 : 15, wide ? 8 : 4);
    CHECK(contains(fault(file), "a malformed table of symbols"));
  }
}

TEST_CASE("a file that is not ELF is described") {
  const auto text_of = [](std::string_view bytes) {
    return error_of([&] { plugin::inspect(std::as_bytes(std::span(bytes)), "/x.so"); }).text();
  };
  CHECK(contains(
      text_of("#!/bin/sh\necho hello"),
      "[plugin] '/x.so': found a file that is not ELF (it begins with \"#!/bin/sh\\x0aec\"), "
      "expected a shared library for "));
  CHECK(contains(text_of(""), "found an empty file"));
  CHECK(contains(text_of("\x7f"
                         "ELG and more than 16 bytes"),
                 "found a file that is not ELF"));
  CHECK(contains(text_of("\x7f"
                         "ELF"),
                 "found a file that is not ELF"));
  CHECK(contains(text_of(std::string("\x7f"
                                     "ELF\x09\x09",
                                     6) +
                         std::string(20, '\0')),
                 "damaged or truncated: unknown class 9"));
}

TEST_CASE(
    "a file cut anywhere, or with any byte changed, is an error or is read, and nothing worse") {
  for (const bool wide : {true, false}) {
    const TinyElf whole(wide, false, 62, kNote);
    for (size_t n = 0; n < whole.bytes.size(); ++n) {
      const std::vector<unsigned char> cut(whole.bytes.begin(),
                                           whole.bytes.begin() + static_cast<ptrdiff_t>(n));
      CHECK(error_of([&] { plugin::inspect(std::as_bytes(std::span(cut)), "/x.so"); }).code() ==
            PLAIT_ERR_PLUGIN);
    }
    for (size_t i = 0; i < whole.bytes.size(); ++i)
      for (const unsigned char value : {0x00, 0x01, 0x7f, 0xff}) {
        std::vector<unsigned char> changed = whole.bytes;
        changed[i] = value;
        const uint32_t code =
            error_of([&] { plugin::inspect(std::as_bytes(std::span(changed)), "/x.so"); }).code();
        CHECK((code == PLAIT_OK || code == PLAIT_ERR_PLUGIN));
      }
  }
}
