// Looks over TOML text for keys with absurdly many parts, before a parser sees it.
#pragma once

#include <string_view>

namespace plait::config {

struct KeyScan {
  bool too_long = false;
  int line = 0, column = 0;  // of the key that is too long
};

// Follows strings and comments as TOML does, so that dots in them do not count. In text that is no TOML the scan is exact up to
// the first fault, which is as far as a parser gets.
KeyScan scan_keys(std::string_view text, int max_parts);

}  // namespace plait::config
