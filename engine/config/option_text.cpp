// Writes checked options as TOML.
#include <algorithm>
#include <filesystem>

#include "engine/base/files.hpp"
#include "engine/base/text.hpp"
#include "engine/config/bind.hpp"
#include "engine/config/experiment.hpp"
#include "engine/config/option_set.hpp"

namespace plait::config {

namespace {

std::string item_toml(const ItemConfig& item, bool absolute_path) {
  std::vector<std::string> parts{"type = " + toml_text(item.type)};
  for (const OptionValue& value : item.options.values())
    parts.push_back(toml_key(value.declared->name) + " = " + value_toml(value, absolute_path));
  return "{" + join(parts) + "}";
}

// A path in a text that is stored elsewhere: one that was found, from the root; another as written.
std::string stored_path(const std::string& resolved, const std::string& given) {
  return resolved == given ? given : rooted_path(resolved);
}

}  // namespace

std::string rooted_path(const std::string& path) {
  std::error_code reason;
  const std::string here = std::filesystem::current_path(reason).string();
  if (reason) return path;
  size_t at = 0;
  while (path.compare(at, 2, "./") == 0) at += 2;
  return path == "." ? here : join_path(here, path.substr(at));
}

std::string value_toml(const OptionValue& value, bool absolute_path) {
  std::vector<std::string> parts;
  switch (value.declared->type) {
    case PLAIT_OPT_BOOL:
      return value.integer ? "true" : "false";
    case PLAIT_OPT_INT:
      return std::to_string(value.integer);
    case PLAIT_OPT_REAL:
      return toml_real(value.real);
    case PLAIT_OPT_PATH:
      return toml_text(absolute_path ? stored_path(value.text, value.given_text)
                                     : value.given_text);
    case PLAIT_OPT_INTS:
      for (const int64_t one : value.integers) parts.push_back(std::to_string(one));
      return "[" + join(parts) + "]";
    case PLAIT_OPT_REALS:
      for (const double one : value.reals) parts.push_back(toml_real(one));
      return "[" + join(parts) + "]";
    case PLAIT_OPT_TEXTS:
      for (const std::string& one : value.texts) parts.push_back(toml_text(one));
      return "[" + join(parts) + "]";
    case PLAIT_OPT_PATHS:
      for (size_t i = 0; i < value.texts.size(); ++i)
        parts.push_back(toml_text(absolute_path ? stored_path(value.texts[i], value.given_texts[i])
                                                : value.given_texts[i]));
      return "[" + join(parts) + "]";
    case PLAIT_OPT_ITEM:
      return value.items.empty() ? "{}" : item_toml(*value.items[0], absolute_path);
    case PLAIT_OPT_ITEMS:
      for (const auto& one : value.items) parts.push_back(item_toml(*one, absolute_path));
      return "[" + join(parts) + "]";
    default:
      return toml_text(value.text);
  }
}

std::string option_comment(const plait_option& option) {
  // printable(): a line break in a plugin's help must not end the comment.
  return "# " + printable(option.help) + "\n# " + printable(describe_option(option)) + "\n";
}

std::string OptionSet::to_toml(bool comments, std::span<const std::string_view> skip,
                               bool absolute_paths) const {
  std::string text;
  for (const OptionValue& value : values_) {
    if (std::find(skip.begin(), skip.end(), std::string_view(value.declared->name)) != skip.end())
      continue;
    if (comments) text += option_comment(*value.declared);
    text += toml_key(value.declared->name) + " = " + value_toml(value, absolute_paths) + "\n";
  }
  return text;
}

}  // namespace plait::config
