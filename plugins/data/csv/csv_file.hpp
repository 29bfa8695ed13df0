// CSV as in RFC 4180: cells between separators, optionally in double quotes ("" inside is a quote),
// lines ending in LF or CRLF.
#pragma once

#include "plugins/support/file_bytes.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace plait::data::csv {

// The columns to read: by their names in the header, or without a header by their numbers from 0.
struct Request {
  bool header = true;
  char separator = ',';
  std::vector<std::string> input;   // empty: every column without another role
  std::vector<std::string> target;  // may be empty
  std::string weight;               // empty: none
  bool integer_target = false;      // i32 in place of f32
};

// N rows. Only the requested cells are parsed as numbers.
struct Table {
  int64_t rows = 0;
  size_t inputs = 0, targets = 0;
  support::Bytes input;   // (N, inputs) f32
  support::Bytes target;  // (N, targets) f32 or i32
  support::Bytes weight;  // (N) f32, or nothing
};

// Errors: PLAIT_ERR_DATA naming line and column, PLAIT_ERR_CONFIG for columns that do not exist.
Table parse(const support::SourceFile& source, std::string_view text, const Request& request);

}  // namespace plait::data::csv
