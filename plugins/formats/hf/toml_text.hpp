// Values of TOML as text.
#pragma once

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace plait::hf {

inline std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

inline std::string toml_strings(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + toml_string(text);
  return "[" + list + "]";
}

// The shortest digits that give the same number.
inline std::string digits(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  std::string out(text.data(), end);
  return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
}

// Letters, digits, _ and -, as names of runs and adapters have: the last part of a path.
std::string name_of_folder(const std::string& folder);
// Behind a comment; a line break would end it.
std::string one_line(std::string text);

}  // namespace plait::hf
