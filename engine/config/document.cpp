#include "engine/config/document.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/config/key_scan.hpp"

// The parser is a detail of this file: header-only, without exceptions, bounded.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 64
#include <toml++/toml.h>

static_assert(TOML_MAX_NESTED_VALUES == plait::config::kMaxDepth);

namespace plait::config {
namespace {

// Turns the parser's tree into nodes; `whole` replaces every origin when it is not NULL.
class Converter {
 public:
  Converter(const std::string& file, const Origin* whole) : file_(file), whole_(whole) {}

  Node convert(const toml::node& from) const {
    const Origin at = origin(from.source());
    switch (from.type()) {
      case toml::node_type::table: return convert_table(*from.as_table(), at);
      case toml::node_type::array: {
        Node array = Node::array(at);
        for (const toml::node& item : *from.as_array()) array.items_mutable().push_back(convert(item));
        return array;
      }
      case toml::node_type::string: return Node::text(from.as_string()->get(), at);
      case toml::node_type::integer: return Node::integer(from.as_integer()->get(), at);
      case toml::node_type::floating_point: return Node::real(from.as_floating_point()->get(), at);
      case toml::node_type::boolean: return Node::boolean(from.as_boolean()->get(), at);
      default: return Node::date("a date or time", at);
    }
  }

 private:
  Node convert_table(const toml::table& from, const Origin& at) const {
    // The parser sorts keys by name; the file's own order is better company.
    std::vector<std::pair<toml::source_position, Node::Entry>> found;
    for (auto&& [key, value] : from)
      found.push_back({key.source().begin, {std::string(key.str()), origin(key.source()), convert(value)}});
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    Node table = Node::table(at);
    for (auto& [position, entry] : found) table.append(std::move(entry));
    return table;
  }
  Origin origin(const toml::source_region& region) const {
    if (whole_) return *whole_;
    return {file_, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
  }

  const std::string& file_;
  const Origin* whole_;
};

// The parser recurses over nested keys, and frees what they made by recursion: too deep a key must not reach it.
bool keys_are_short(std::string_view text, const std::string& file, Problems& problems) {
  const KeyScan scan = scan_keys(text, kMaxKeyParts);
  if (!scan.too_long) return true;
  problems.add({file, scan.line, scan.column}, "", "a key of more than " + std::to_string(kMaxKeyParts) + " parts",
               "use fewer dots");
  return false;
}

}  // namespace

Document Document::parse(std::string_view text, const std::string& file, Problems& problems) {
  Document document;
  document.file = file;
  document.folder = folder_of(file);
  document.root = Node::table({file, 1, 1});
  if (text.size() > kMaxFileBytes) {
    problems.add({file, 0, 0}, "", "the text has " + human_bytes(text.size()) + ", at most " + human_bytes(kMaxFileBytes) +
                                       " are read", "give an experiment file");
    return document;
  }
  if (!keys_are_short(text, file, problems)) return document;
  toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    const auto& at = parsed.error().source().begin;
    problems.add({file, static_cast<int>(at.line), static_cast<int>(at.column)}, "",
                 "not TOML: " + std::string(parsed.error().description()), "see https://toml.io for the syntax");
    return document;
  }
  document.root = Converter(file, nullptr).convert(parsed.table());
  return document;
}

Document Document::read(FileSystem& files, const std::string& path, Problems& problems) {
  std::string text;
  try {
    text = files.read_all(path, kMaxFileBytes);
  } catch (const Error& e) {
    problems.add({path, 0, 0}, "", e.text());
    Document document;
    document.file = path;
    document.folder = folder_of(path);
    return document;
  }
  return parse(text, path, problems);
}

Node parse_value(std::string_view text, const Origin& origin, Problems& problems) {
  const bool syntax = text.find_first_of("\"'[{") == 0;
  const std::string line = "v = " + std::string(text);
  const bool plain = text.size() <= kMaxFileBytes && !scan_keys(line, kMaxKeyParts).too_long;
  if (plain) {
    toml::parse_result parsed = toml::parse(line);
    // More than one key: a line break in the text tried to say more than a value.
    if (parsed && parsed.table().size() == 1) return Converter(origin.file, &origin).convert(*parsed.table().get("v"));
    if (!parsed && syntax) {
      problems.add(origin, "", "not a TOML value: " + std::string(parsed.error().description()),
                   "check quotes and brackets");
      return {};
    }
  }
  if (syntax) {
    problems.add(origin, "", "not one TOML value", "check quotes and brackets");
    return {};
  }
  return Node::text(std::string(text), origin);
}

}  // namespace plait::config
