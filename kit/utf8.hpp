// UTF-8: the well-formed characters of a text (Unicode 16, table 3-7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plait::kit {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Number of bytes of the well-formed character at text[i], or 0.
inline size_t utf8_length(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = byte(i);
  const size_t n = lead < 0x80   ? 1
                   : lead < 0xC2 ? 0
                   : lead < 0xE0 ? 2
                   : lead < 0xF0 ? 3
                   : lead < 0xF5 ? 4
                                 : 0;
  if (n == 0 || i + n > text.size()) return 0;
  for (size_t k = 1; k < n; ++k)
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  if (n == 3 && ((lead == 0xE0 && byte(i + 1) < 0xA0) || (lead == 0xED && byte(i + 1) > 0x9F)))
    return 0;
  if (n == 4 && ((lead == 0xF0 && byte(i + 1) < 0x90) || (lead == 0xF4 && byte(i + 1) > 0x8F)))
    return 0;
  return n;
}

// The code point of the well-formed character at text[i], which has n bytes.
inline char32_t utf8_code(std::string_view text, size_t i, size_t n) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[i + k]); };
  if (n == 1) return byte(0);
  char32_t code = byte(0) & (0xFFu >> (n + 1));
  for (size_t k = 1; k < n; ++k) code = code << 6 | (byte(k) & 0x3Fu);
  return code;
}

// Appends a code point, which is below 0x110000 and no surrogate.
inline void append_utf8(std::string& text, char32_t code) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

}  // namespace plait::kit
