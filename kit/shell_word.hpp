// Words of commands that a message tells the reader to paste into a shell.
#pragma once

#include <string>
#include <string_view>

namespace plait::kit {

// As one word of bash, on one line: control characters become \ooo in $'...'.
inline std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  bool control = false;
  for (const char c : text) control |= is_control(c);
  std::string all = control ? "$'" : "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_control(c))
      for (const int shift : {9, 6, 3, 0})
        all += shift == 9 ? '\\' : static_cast<char>('0' + (byte >> shift & 7));
    else if (control && (c == '\'' || c == '\\'))
      (all += '\\') += c;
    else if (c == '\'')
      all += "'\\''";
    else
      all += c;
  }
  return all + "'";
}

// The same for a path, which is no option either.
inline std::string path_word(std::string_view path) {
  return shell_word((path.starts_with('-') ? "./" : "") + std::string(path));
}

}  // namespace plait::kit
