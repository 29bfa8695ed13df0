// Looks over TOML text before a parser sees it, for two things that parsers have stumbled over.
#pragma once

#include <string_view>

namespace plait::config {

enum class ScanFault {
  kNone,
  kLongKey,  // a key of absurdly many parts: a parser recurses over them, and again to free what they made
  kForeign,  // a character beyond ASCII outside quotes and comments, where TOML has none
};

struct Scan {
  ScanFault fault = ScanFault::kNone;
  int line = 0, column = 0;  // of the key, or the character
};

// Follows strings and comments as TOML does. In text that is no TOML the scan is exact up to the first fault, which is as far as a
// parser gets.
Scan scan_text(std::string_view text, int max_key_parts);

}  // namespace plait::config
