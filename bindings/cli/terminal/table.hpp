// Aligned columns of text.
#pragma once

#include <string>
#include <vector>

namespace plait::cli {

class Table {
 public:
  // One letter per column: 'l' or 'r' for its alignment.
  explicit Table(std::string alignment) : alignment_(std::move(alignment)) {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // Lines with `indent` in front, each ending in a newline.
  std::string text(const std::string& indent = "") const;
  // The same where they have at most so many columns, or that is 0. Otherwise each row behind the
  // first, which has the names of the columns, is a line with its first cell, and below it the
  // others with their names.
  std::string fitted(const std::string& indent, int columns, bool utf8) const;
  // The same of a table without names of columns, in which the last cell of a row is a text: where
  // a line would be longer, texts are broken, as definition() does it.
  std::string with_texts(const std::string& indent, int columns, bool utf8) const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

// Whether no line is longer than so many columns; always, where there is no window (0 columns).
bool fits(const std::string& text, int columns);

}  // namespace plait::cli
