// Scans TOML text before the parser sees it for things that have crashed parsers.
#pragma once

#include <string_view>

namespace plait::config {

enum class ScanFault {
  kNone,
  // a key with an absurd number of parts: parsers recurse over them, and again to free the result
  kLongKey,
  kForeign,  // a character beyond ASCII outside quotes and comments, where TOML allows none
  kBinary,   // a NUL character: no text at all
};

struct Scan {
  ScanFault fault = ScanFault::kNone;
  int line = 0, column = 0;  // position of the key or character
  bool is_quote = false;     // of kForeign: a typographic quotation mark, as of a word processor
};

// Follows strings and comments as TOML defines them. In invalid TOML the scan is exact up to the
// first error, which is as far as a parser reads.
Scan scan_text(std::string_view text, int max_key_parts);

}  // namespace plait::config
