// Splits a CSV text into cells.
#pragma once

#include "plugins/data/csv/csv_file.hpp"

namespace plait::data::csv {

class Cells {
 public:
  Cells(const support::SourceFile& source, std::string_view text, char separator)
      : source_(source), text_(text), separator_(separator) {
    rewind();
  }
  void rewind() {
    at_ = text_.starts_with("\xef\xbb\xbf") ? 3 : 0;  // after a byte order mark
    line_ = 1;
  }

  // Advances to the next non-empty line; false at the end.
  bool next_line();
  // Back to the first cell of this line.
  void restart_line() {
    at_ = line_at_;
    line_ = cell_line_ = first_line_;
    columns_read_ = 0;
    more_ = true;
  }
  // Reads the next cell of this line; false after the last one. The view is valid until the next
  // call.
  bool next_cell(std::string_view& cell);

  const support::SourceFile& source() const { return source_; }
  size_t bytes() const { return text_.size(); }    // of the file
  int64_t line() const { return cell_line_; }      // of the last cell, from 1
  size_t column() const { return columns_read_; }  // of the last cell, from 1
  [[noreturn]] void bad(const std::string& text) const;

 private:
  std::string_view quoted();
  bool at_line_end() const;
  void skip_line_end();

  const support::SourceFile& source_;
  std::string_view text_;
  char separator_;
  size_t at_ = 0, columns_read_ = 0;
  int64_t line_ = 1, cell_line_ = 1;
  size_t line_at_ = 0;      // where this line begins
  int64_t first_line_ = 1;  // its number
  bool more_ = false;       // the line has another cell
  std::string scratch_;     // a quoted cell with "" made "
};

}  // namespace plait::data::csv
