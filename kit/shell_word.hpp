// Words of commands that a message tells the reader to paste into a shell.
#pragma once

#include <string>
#include <string_view>

#include "kit/utf8.hpp"

namespace plait::kit {

// As one word of bash, on one line: control characters, and bytes that are not UTF-8, become \ooo
// in $'...'. The command line has the same for itself (shell_quoted), as a host knows no kit; a
// test compares the two.
inline std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  bool escapes = false;
  std::string escaped, as_it_is;
  for (size_t i = 0, n = 0; i < text.size(); i += n) {
    const size_t whole = utf8_length(text, i);
    const char32_t code = whole > 0 ? utf8_code(text, i, whole) : 0;
    n = whole > 0 ? whole : 1;
    as_it_is += code == '\'' ? "'\\''" : text.substr(i, n);
    if (code == '\'' || code == '\\') escaped += '\\';
    if (code >= 0x20 && (code < 0x7F || code >= 0xA0)) {  // no control character, of C1 neither
      escaped += text.substr(i, n);
      continue;
    }
    escapes = true;
    for (size_t k = i; k < i + n; ++k) {
      const auto byte = static_cast<unsigned char>(text[k]);
      escaped += '\\';
      for (const int shift : {6, 3, 0}) escaped += static_cast<char>('0' + (byte >> shift & 7));
    }
  }
  return escapes ? "$'" + escaped + "'" : "'" + as_it_is + "'";
}

// The same for a path, which is no option either.
inline std::string path_word(std::string_view path) {
  return shell_word((path.starts_with('-') ? "./" : "") + std::string(path));
}

}  // namespace plait::kit
