// Texts of unknown origin, made valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plait::kit {

// What became of bytes that are not UTF-8.
struct InvalidBytes {
  uint64_t n = 0;      // sequences of such bytes, each replaced by U+FFFD
  uint64_t first = 0;  // byte offset of the first one
};

// Counts what is not UTF-8. If there is any, sets `to` to the text with U+FFFD in place of each
// longest sequence that begins no character ("maximal subpart", Unicode 16, section 3.9), as
// Python's errors="replace" does; else `to` stays.
InvalidBytes replace_invalid(std::string_view text, std::string& to);

}  // namespace plait::kit
