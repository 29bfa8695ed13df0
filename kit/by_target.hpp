// Values by the names of targets: texts "PATTERN=NUMBER" of a PEFT method's options, those with
// PLAIT_OPT_BY_TARGET.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace plait::kit {

// Matches the whole text; * is any run of characters, ? any single one.
inline bool glob_match(std::string_view pattern, std::string_view text) {
  // Only the last '*' needs to be remembered: backtracking to an earlier one cannot match anything
  // that the last one cannot.
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

struct ByTarget {
  std::string_view pattern, value;
};

// Both parts of "PATTERN=VALUE"; nothing if one of them is missing.
inline std::optional<ByTarget> by_target(std::string_view text) {
  const size_t at = text.rfind('=');
  if (at == std::string_view::npos || at == 0 || at + 1 == text.size()) return std::nullopt;
  return ByTarget{text.substr(0, at), text.substr(at + 1)};
}

// The whole text as a number; nothing: it is none.
template <class T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace plait::kit
