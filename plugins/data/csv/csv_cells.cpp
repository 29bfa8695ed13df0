#include "plugins/data/csv/csv_cells.hpp"

namespace plait::data::csv {

void Cells::bad(const std::string& text) const {
  fail(PLAIT_ERR_DATA, source_.text() + ", line " + std::to_string(cell_line_) + ", column " +
                           std::to_string(columns_read_) + ": " + text);
}

bool Cells::at_line_end() const {
  return at_ == text_.size() || text_[at_] == '\n' || text_[at_] == '\r';
}

void Cells::skip_line_end() {
  if (at_ == text_.size()) return;
  ++line_;
  if (text_[at_++] == '\r' && at_ < text_.size() && text_[at_] == '\n') ++at_;
}

bool Cells::next_line() {
  columns_read_ = 0;
  while (at_ < text_.size() && at_line_end()) skip_line_end();
  line_at_ = at_;
  first_line_ = cell_line_ = line_;
  more_ = at_ < text_.size();
  return more_;
}

bool Cells::next_cell(std::string_view& cell) {
  if (!more_) return false;
  ++columns_read_;
  cell_line_ = line_;
  if (at_ < text_.size() && text_[at_] == '"') {
    cell = quoted();
  } else {
    const size_t begin = at_;
    while (!at_line_end() && text_[at_] != separator_) ++at_;
    cell = text_.substr(begin, at_ - begin);
  }
  more_ = !at_line_end();
  if (more_)
    ++at_;  // the separator
  else
    skip_line_end();
  return true;
}

std::string_view Cells::quoted() {
  scratch_.clear();
  size_t begin = ++at_;
  while (true) {
    const size_t end = text_.find('"', begin);
    if (end == std::string_view::npos)
      bad("the quote that opens here is never closed; close it, or double it for a literal one");
    for (size_t i = begin; i < end; ++i)
      line_ += text_[i] == '\n' || (text_[i] == '\r' && text_[i + 1] != '\n');
    scratch_.append(text_, begin, end - begin);
    at_ = end + 1;
    if (at_ == text_.size() || text_[at_] != '"') break;
    scratch_ += '"';
    begin = at_ + 1;
  }
  if (!at_line_end() && text_[at_] != separator_)
    bad("text follows the closing quote, expected the separator or the end of the line");
  return scratch_;
}

}  // namespace plait::data::csv
