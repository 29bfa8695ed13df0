#include "bindings/cli/item_toml.hpp"

#include <algorithm>
#include <charconv>

#include "bindings/cli/context.hpp"

namespace plait::cli {

std::string toml_value(const Json& value) {
  std::string text;
  try {
    text = value.dump();
  } catch (const Json::type_error&) {
    const std::string given =
        value.is_string() ? shell_quoted(value.get_ref<const std::string&>()) + " " : "a text ";
    throw CliError(kUsage, "[cli] " + given +
                               "is not UTF-8, as texts of an experiment are; give it in UTF-8; a "
                               "file can be renamed, or named by a link");
  }
  // The one character that stands for itself in JSON and may not in TOML.
  for (size_t at = 0; (at = text.find('\x7f', at)) != text.npos;) text.replace(at, 1, "\\u007f");
  return text;
}

std::string item_toml(const std::string& type, const std::vector<std::string>& options) {
  std::string toml = "type = " + toml_value(type) + "\n";
  for (const std::string& option : options) {
    const size_t at = option.find('=');
    if (at == std::string::npos)
      throw CliError(kUsage, "--option '" + option + "': expected KEY=VALUE");
    const std::string value = option.substr(at + 1);
    toml += option.substr(0, at) + " = " + (Json::accept(value) ? value : toml_value(value)) + "\n";
  }
  return toml;
}

namespace {

// The key of a line, which counts from 1; "": there is no such line.
std::string key_of_line(const std::string& toml, size_t line) {
  size_t begin = 0;
  for (; line > 1 && begin < toml.size(); --line)
    begin = std::min(toml.find('\n', begin), toml.size() - 1) + 1;
  const size_t equals = toml.find(" = ", begin);
  return equals == std::string::npos ? "" : toml.substr(begin, equals - begin);
}

}  // namespace

std::string with_options_named(std::string text, const std::string& document,
                               const std::string& toml) {
  const std::string begin = document + ":";
  for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
    const char *const end = text.data() + text.size(), *number = text.data() + at + begin.size();
    size_t line = 0, column = 0;
    const auto after_line = std::from_chars(number, end, line);
    if (after_line.ec != std::errc() || after_line.ptr == end || *after_line.ptr != ':') continue;
    const auto after = std::from_chars(after_line.ptr + 1, end, column);
    if (after.ec != std::errc() || end - after.ptr < 2 || after.ptr[0] != ':') continue;
    const auto length = static_cast<size_t>(after.ptr - text.data()) + 2 - at;
    const std::string key = key_of_line(toml, line);
    text.replace(at, length, key.empty() || key == "type" ? "" : "--option " + key + ": ");
  }
  // There is no experiment, and of the item's own type every message says so.
  if (constexpr std::string_view kType = "\ntype: "; is_problem_list(text)) {
    const size_t at = text.find(kType);
    if (at != text.npos && at == text.find('\n')) text = "[cli] " + text.substr(at + kType.size());
  }
  return text;
}

}  // namespace plait::cli
