#include "kit/valid_utf8.hpp"

#include <algorithm>

#include "kit/utf8.hpp"

namespace plait::kit {
namespace {

unsigned char byte_at(std::string_view text, size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

// Bytes of the sequence at text[i], which is no character, that one U+FFFD replaces: as many as
// could begin a character, at least 1.
size_t broken_length(std::string_view text, size_t i) {
  const unsigned char lead = byte_at(text, i);
  const size_t whole = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return 1;
  // The second byte has a range of its own after some leads.
  const unsigned char low = lead == 0xE0   ? 0xA0
                            : lead == 0xF0 ? 0x90
                                           : 0x80,
                      high = lead == 0xED   ? 0x9F
                             : lead == 0xF4 ? 0x8F
                                            : 0xBF;
  if (byte_at(text, i + 1) < low || byte_at(text, i + 1) > high) return 1;
  size_t n = 2;
  while (n < whole && (byte_at(text, i + n) & 0xC0) == 0x80) ++n;
  return n;
}

// The bytes from i on that are ASCII, by words of 8.
size_t ascii_end(std::string_view text, size_t i) {
  constexpr uint64_t kHigh = 0x8080808080808080;
  for (uint64_t word; i + sizeof word <= text.size(); i += sizeof word) {
    __builtin_memcpy(&word, text.data() + i, sizeof word);
    if (word & kHigh) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

}  // namespace

InvalidBytes replace_invalid(std::string_view text, std::string& to) {
  InvalidBytes invalid;
  size_t copied = 0;
  for (size_t i = ascii_end(text, 0); i < text.size(); i = ascii_end(text, i)) {
    if (const size_t n = utf8_length(text, i)) {
      i += n;
      continue;
    }
    if (invalid.n++ == 0) {
      invalid.first = i;
      to.clear();
    }
    to += text.substr(copied, i - copied);
    to += kReplacement;
    i += broken_length(text, i);
    copied = i;
  }
  if (invalid.n > 0) to += text.substr(copied);
  return invalid;
}

}  // namespace plait::kit
