#include "engine/config/document.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/file_memory.hpp"
#include "engine/base/files.hpp"
#include "engine/config/extends.hpp"
#include "engine/config/text_scan.hpp"

namespace plait::config {
// Thrown where the parser's own assertions fail, which some malformed texts provoke: it would
// abort, or, with NDEBUG, assume the impossible.
struct ParserGaveUp {};
constexpr void keep_promise(bool kept) {
  if (!kept) throw ParserGaveUp();
}
}  // namespace plait::config

// The parser is private to this file: header-only, errors as values, bounded, with its assertions
// enabled in every build.
#undef NDEBUG
#define TOML_ASSERT(expression) ::plait::config::keep_promise(static_cast<bool>(expression))
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 64
#include <toml++/toml.h>

static_assert(TOML_MAX_NESTED_VALUES == plait::config::kMaxDepth);

namespace plait::config {
namespace {

// Converts the parser's tree to nodes; `whole` replaces every origin when it is not NULL.
class Converter {
 public:
  Converter(const std::string& file, const Origin* whole) : file_(file), whole_(whole) {}

  Node convert(const toml::node& from) const {
    const Origin at = origin(from.source());
    switch (from.type()) {
      case toml::node_type::table:
        return convert_table(*from.as_table(), at);
      case toml::node_type::array: {
        Node array = Node::array(at);
        for (const toml::node& item : *from.as_array())
          array.items_mutable().push_back(convert(item));
        return array;
      }
      case toml::node_type::string:
        return Node::text(from.as_string()->get(), at);
      case toml::node_type::integer:
        return Node::integer(from.as_integer()->get(), at);
      case toml::node_type::floating_point:
        return Node::real(from.as_floating_point()->get(), at);
      case toml::node_type::boolean:
        return Node::boolean(from.as_boolean()->get(), at);
      default:
        return Node::date("a date or time", at);
    }
  }

 private:
  Node convert_table(const toml::table& from, const Origin& at) const {
    // The parser sorts keys by name; sort them back into the order of the file.
    std::vector<std::pair<toml::source_position, Node::Entry>> found;
    for (auto&& [key, value] : from) {
      // Moved into the pair: a copy at each level would make the cost quadratic in the depth.
      Node::Entry entry{std::string(key.str()), origin(key.source()), convert(value)};
      found.emplace_back(key.source().begin, std::move(entry));
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
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

// The parser's result for a text: a table, or the reason and position of the error.
struct Parsed {
  toml::table table;
  bool good = false, gave_up = false;
  std::string why;
  int line = 0, column = 0;
};

Parsed parse_text(std::string_view text) {
  Parsed parsed;
  try {
    // Without the file name: the parser would copy it in a place where it must not run out of
    // memory.
    toml::parse_result result = toml::parse(text);
    if (result) {
      parsed.good = true;
      parsed.table = std::move(result).table();
    } else {
      parsed.why = result.error().description();
      parsed.line = static_cast<int>(result.error().source().begin.line);
      parsed.column = static_cast<int>(result.error().source().begin.column);
    }
  } catch (const ParserGaveUp&) {
    parsed.gave_up = true;
    parsed.why = "malformed in a way that the parser cannot describe";
  }
  return parsed;
}

// The line at which the parser stops, by bisection: it reads from front to back, so if it fails on
// the first n lines it fails on more lines, too.
int line_of_giving_up(std::string_view text) {
  std::vector<size_t> ends;
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1))
    ends.push_back(at + 1);
  ends.push_back(text.size());
  const auto fine = [&](size_t end) { return !parse_text(text.substr(0, end)).gave_up; };
  const auto first = std::partition_point(ends.begin(), ends.end() - 1, fine);
  return static_cast<int>(first - ends.begin()) + 1;
}

// By its mark, or ASCII without one: each second byte is 0.
bool is_utf16(std::string_view text) {
  constexpr size_t kLooked = 64;
  const auto zeros = [&](size_t first) {
    for (size_t i = 0; i < std::min(text.size(), kLooked); ++i)
      if ((text[i] == 0) != (i % 2 == first)) return false;
    return text.size() >= 2;
  };
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") || zeros(0) || zeros(1);
}

// False for text that must not reach the parser: see text_scan.hpp.
bool may_be_parsed(std::string_view text, const std::string& file, Problems& problems) {
  const Scan scan = scan_text(text, kMaxKeyParts);
  const Origin at{file, scan.line, scan.column};
  if (scan.fault == ScanFault::kLongKey)
    problems.add(at, "", "a key of more than " + std::to_string(kMaxKeyParts) + " parts",
                 "use fewer dots");
  if (scan.fault == ScanFault::kForeign && scan.is_quote)
    problems.add(at, "", "not TOML: a typographic quotation mark",
                 "write \" or ', as an editor for plain text does");
  else if (scan.fault == ScanFault::kForeign)
    problems.add(at, "", "not TOML: a character beyond ASCII outside quotes",
                 "put the text in quotes");
  if (scan.fault == ScanFault::kBinary)
    problems.add({file, 0, 0}, "",
                 is_utf16(text) ? "a text in UTF-16, expected UTF-8"
                                : "a binary file, expected an experiment in TOML",
                 is_utf16(text) ? "save it as UTF-8" : "name an experiment");
  return scan.fault == ScanFault::kNone;
}

bool is_readable_folder(FileSystem& files, const std::string& path) {
  try {
    return files.is_folder(path);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Document Document::parse(std::string_view text, const std::string& file, Problems& problems) {
  Document document;
  document.file = file;
  document.folder = folder_of(file);
  document.root = Node::table({file, 1, 1});
  if (text.size() > kMaxFileBytes) {
    problems.add({file, 0, 0}, "",
                 "the text has " + human_bytes(text.size()) + ", expected at most " +
                     human_bytes(kMaxFileBytes),
                 "check that it is an experiment file");
    return document;
  }
  if (!may_be_parsed(text, file, problems)) return document;
  const Parsed parsed = parse_text(text);
  const bool yaml = file.ends_with(".yaml") || file.ends_with(".yml");
  const Origin at = parsed.gave_up ? Origin{file, line_of_giving_up(text), 1}
                                   : Origin{file, parsed.line, parsed.column};
  if (parsed.good)
    document.root = Converter(file, nullptr).convert(parsed.table);
  else
    problems.add(at, "", "not TOML: " + parsed.why,
                 yaml ? "this seems to be YAML; an experiment is TOML: [run] above steps = 100"
                      : "see https://toml.io for the syntax");
  return document;
}

Document Document::read(FileSystem& files, const std::string& path, Problems& problems) {
  Document document = parse_file(files, path, problems);
  extend(files, document, problems);
  return document;
}

Document Document::parse_file(FileSystem& files, const std::string& path, Problems& problems) {
  std::string text;
  try {
    text = files.read_stream(path, kMaxFileBytes);
  } catch (const Error& e) {
    if (e.code() == PLAIT_ERR_MEMORY) throw;
    problems.add({path, 0, 0}, "", e.text(),
                 is_readable_folder(files, path)
                     ? "name the file in it, as in " + path + "/experiment.toml"
                     : "");
    Document document;
    document.file = path;
    document.folder = folder_of(path);
    return document;
  }
  return with_memory("config", "parse", path, text.size(),
                     [&] { return parse(text, path, problems); });
}

Node parse_value(std::string_view text, const Origin& origin, Problems& problems) {
  const bool syntax = text.find_first_of("\"'[{") == 0;
  const std::string line = "v = " + std::string(text);
  const bool plain =
      text.size() <= kMaxFileBytes && scan_text(line, kMaxKeyParts).fault == ScanFault::kNone;
  if (plain) {
    const Parsed parsed = parse_text(line);
    // More than one key: a line break in the text added another one.
    if (parsed.good && parsed.table.size() == 1)
      return Converter(origin.file, &origin).convert(*parsed.table.get("v"));
    if (!parsed.good && syntax) {
      problems.add(
          origin, "", "not a TOML value: " + parsed.why,
          text.find_first_of("\"'") == text.npos && text.find_last_of("]}") == text.size() - 1
              ? "a text inside brackets needs quotes: {type = \"sgd\"}, [\"a\", \"b\"]"
              : "check quotes and brackets");
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
