// CSV as RFC 4180 has it: cells by a separator, optionally in double quotes ("" inside is a quote), lines by LF or CRLF.
#pragma once

#include "plugins/data/bytes.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace plait::data::csv {

// What to read. Columns by their names in the header, or without one by their number from 0.
struct Request {
  bool header = true;
  char separator = ',';
  std::vector<std::string> input;   // empty: every column that is nothing else
  std::vector<std::string> target;  // may be empty
  std::string weight;               // empty: none
  bool integer_target = false;      // i32 in place of f32
};

// N rows. Cells that are not asked for are not read as numbers.
struct Table {
  int64_t rows = 0;
  size_t inputs = 0, targets = 0;
  Bytes input;   // (N, inputs) f32
  Bytes target;  // (N, targets) f32 or i32
  Bytes weight;  // (N) f32, or nothing
};

// Errors: PLAIT_ERR_DATA naming line and column, PLAIT_ERR_CONFIG for columns that do not exist.
Table parse(const SourceFile& source, std::string_view text, const Request& request);

}  // namespace plait::data::csv
