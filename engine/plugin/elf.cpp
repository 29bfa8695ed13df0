#include "engine/plugin/elf.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plugin/inspect.hpp"
#include "engine/plugin/plugin_load_error.hpp"

namespace plait::plugin {
namespace {

constexpr uint32_t kNoteSegment = 4, kDynamicSymbols = 11;
constexpr uint32_t kMaxSections = 65536, kMaxNote = 4096;

// The first bytes of a file that is not ELF, for the message.
std::string beginning(std::span<const std::byte> bytes) {
  const size_t n = std::min<size_t>(bytes.size(), 12);
  return printable({reinterpret_cast<const char*>(bytes.data()), n});
}

}  // namespace

ElfFile::ElfFile(std::span<const std::byte> bytes, std::string path)
    : bytes_(bytes), path_(std::move(path)) {
  if (bytes_.size() < 16 || std::memcmp(bytes_.data(),
                                        "\x7f"
                                        "ELF",
                                        4) != 0)
    throw PluginLoadError(path_,
                          "found " +
                              (bytes_.empty() ? std::string("an empty file")
                                              : "a file that is not ELF (it begins with \"" +
                                                    beginning(bytes_) + "\")") +
                              ", expected a shared library for " + own_machine(),
                          "give the plugin's .so file");
  const auto identity = [&](size_t i) { return static_cast<unsigned>(bytes_[i]); };
  if (identity(4) < 1 || identity(4) > 2 || identity(5) < 1 || identity(5) > 2)
    damaged("unknown class " + std::to_string(identity(4)) + " or byte order " +
            std::to_string(identity(5)));
  wide_ = identity(4) == 2;
  big_ = identity(5) == 2;
  type_ = static_cast<uint32_t>(number(16, 2));
  machine_ = static_cast<uint32_t>(number(18, 2));
  program_headers_ = word(wide_ ? 32 : 28);
  program_header_size_ = static_cast<uint32_t>(number(wide_ ? 54 : 42, 2));
  n_program_headers_ = static_cast<uint32_t>(number(wide_ ? 56 : 44, 2));
  read_sections();
}

void ElfFile::damaged(const std::string& what) const {
  throw PluginLoadError(path_,
                        "the ELF file is damaged or truncated: " + what + "; the file has " +
                            std::to_string(bytes_.size()) + " bytes",
                        "build or install the plugin again");
}

std::span<const std::byte> ElfFile::part(uint64_t offset, uint64_t size, const char* what) const {
  if (offset > bytes_.size() || size > bytes_.size() - offset)
    damaged(std::string(what) + " should take " + std::to_string(size) + " bytes at offset " +
            std::to_string(offset));
  return bytes_.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
}

uint64_t ElfFile::number(uint64_t at, unsigned bytes) const {
  const auto raw = part(at, bytes, "a number");
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i)
    value = value << 8 | static_cast<uint64_t>(raw[big_ ? i : bytes - 1 - i]);
  return value;
}

std::string_view ElfFile::text_at(uint64_t table, uint64_t table_size, uint64_t at) const {
  const auto raw = part(table, table_size, "a table of names");
  if (at >= raw.size()) damaged("a name lies outside its table");
  const char* first = reinterpret_cast<const char*>(raw.data()) + at;
  return {first, strnlen(first, std::min<size_t>(raw.size() - static_cast<size_t>(at), 4096))};
}

void ElfFile::read_sections() {
  const uint64_t table = word(wide_ ? 40 : 32);
  const uint32_t entry = static_cast<uint32_t>(number(wide_ ? 58 : 46, 2));
  const uint32_t n = static_cast<uint32_t>(number(wide_ ? 60 : 48, 2));
  const uint32_t names = static_cast<uint32_t>(number(wide_ ? 62 : 50, 2));
  if (table == 0 || n == 0) return;  // stripped of section headers: the note is also in a segment
  if (entry < (wide_ ? 64u : 40u) || n > kMaxSections)
    damaged("a section header has " + std::to_string(entry) + " bytes");
  part(table, uint64_t{n} * entry, "the section headers");
  std::vector<uint64_t> name_at;
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t at = table + uint64_t{i} * entry;
    ElfSection section;
    name_at.push_back(number(at, 4));
    section.type = static_cast<uint32_t>(number(at + 4, 4));
    section.offset = word(at + (wide_ ? 24 : 16));
    section.size = word(at + (wide_ ? 32 : 20));
    section.link = static_cast<uint32_t>(number(at + (wide_ ? 40 : 24), 4));
    section.entry_size = word(at + (wide_ ? 56 : 36));
    sections_.push_back(section);
  }
  if (names >= n) damaged("the names of the sections are missing");
  for (uint32_t i = 0; i < n; ++i)
    sections_[i].name = text_at(sections_[names].offset, sections_[names].size, name_at[i]);
}

std::string ElfFile::find_note(uint64_t offset, uint64_t size, std::string_view owner,
                               uint32_t type) const {
  const auto raw = part(offset, size, "a note");
  const auto padded = [](uint64_t n) { return (n + 3) / 4 * 4; };
  // Each note: three numbers, the owner, the text; owner and text are padded to 4 bytes.
  for (uint64_t at = 0; raw.size() - at >= 12;) {
    const uint64_t owner_size = number(offset + at, 4), text_size = number(offset + at + 4, 4);
    const uint64_t text = at + 12 + padded(owner_size), end = text + padded(text_size);
    if (text + text_size > raw.size()) break;
    const char* first = reinterpret_cast<const char*>(raw.data());
    const std::string_view found(first + at + 12,
                                 strnlen(first + at + 12, static_cast<size_t>(owner_size)));
    if (found == owner && number(offset + at + 8, 4) == type && text_size <= kMaxNote)
      return std::string(first + text, strnlen(first + text, static_cast<size_t>(text_size)));
    at = std::min<uint64_t>(end, raw.size());
  }
  return "";
}

std::string ElfFile::note(std::string_view section, std::string_view owner, uint32_t type) const {
  for (const ElfSection& one : sections_)
    if (one.name == section) return find_note(one.offset, one.size, owner, type);
  if (program_header_size_ < (wide_ ? 56u : 32u)) return "";
  for (uint32_t i = 0; i < n_program_headers_; ++i) {
    const uint64_t at = program_headers_ + uint64_t{i} * program_header_size_;
    if (number(at, 4) != kNoteSegment) continue;
    std::string text =
        find_note(word(at + (wide_ ? 8 : 4)), word(at + (wide_ ? 32 : 16)), owner, type);
    if (!text.empty()) return text;
  }
  return "";
}

std::vector<std::string> ElfFile::exports() const {
  std::vector<std::string> names;
  for (const ElfSection& section : sections_) {
    if (section.type != kDynamicSymbols) continue;
    const uint64_t symbol = wide_ ? 24 : 16;
    if (section.entry_size != symbol || section.link >= sections_.size())
      damaged("a malformed table of symbols");
    part(section.offset, section.size, "the table of symbols");
    const ElfSection& texts = sections_[section.link];
    for (uint64_t at = section.offset; at + symbol <= section.offset + section.size; at += symbol) {
      const uint64_t info = number(at + (wide_ ? 4 : 12), 1),
                     other = number(at + (wide_ ? 5 : 13), 1);
      const uint64_t binding = info >> 4, kind = info & 15, visibility = other & 3;
      const bool defined = number(at + (wide_ ? 6 : 14), 2) != 0;
      const bool visible = binding != 0 && (visibility == 0 || visibility == 3);
      if (!defined || !visible || kind == 3 || kind == 4) continue;  // 3, 4: sections and files
      names.emplace_back(text_at(texts.offset, texts.size, number(at, 4)));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace plait::plugin
