#include "bindings/cli/terminal/table.hpp"

#include <algorithm>
#include <sstream>

#include "bindings/cli/terminal/cells.hpp"
#include "bindings/cli/terminal/definitions.hpp"

namespace plait::cli {
namespace {

// Characters, not bytes: UTF-8's continuation bytes take no place.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

int widest_line(const std::string& text) {
  size_t widest = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    widest = std::max(widest, width(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return static_cast<int>(widest);
}

}  // namespace

bool fits(const std::string& text, int columns) {
  return columns <= 0 || widest_line(text) <= columns;
}

std::string Table::text(const std::string& indent) const {
  std::vector<size_t> widths(alignment_.size(), 0);
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  std::string all;
  for (const auto& row : rows_) {
    std::string line = indent;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string fill(widths[i] - width(row[i]), ' ');
      line += (i ? "  " : "") + (alignment_[i] == 'r' ? fill + row[i] : row[i] + fill);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    all += line + "\n";
  }
  return all;
}

std::string Table::fitted(const std::string& indent, int columns, bool utf8) const {
  std::string all = text(indent);
  if (rows_.size() < 2 || fits(all, columns)) return all;
  all.clear();
  for (size_t r = 1; r < rows_.size(); ++r) {
    std::string rest;
    for (size_t i = 1; i < rows_[r].size(); ++i) {
      const std::string& cell = rows_[r][i];
      if (cell.empty()) continue;
      rest += (rest.empty() ? "" : ", ") + (rows_[0][i].empty() ? "" : rows_[0][i] + " ") +
              cell.substr(0, cell.find_last_not_of(' ') + 1);  // "0 " of a number without a prefix
    }
    all += wrapped(indent + rows_[r][0], columns, utf8) + "\n";
    if (!rest.empty()) all += wrapped(indent + "  " + rest, columns, utf8) + "\n";
  }
  return all;
}

std::string Table::with_texts(const std::string& indent, int columns, bool utf8) const {
  std::string all = text(indent);
  if (fits(all, columns)) return all;
  all.clear();
  Table names(alignment_.substr(0, alignment_.size() - 1));
  for (const auto& row : rows_) names.row({row.begin(), row.end() - 1});
  const int begin = static_cast<int>(indent.size()) + widest_line(names.text()) + 2;
  std::istringstream lines(names.text());
  std::string name;
  for (const auto& row : rows_) {
    std::getline(lines, name);
    all += definition(name, row.back(), begin, columns, utf8, static_cast<int>(indent.size()));
  }
  return all;
}

}  // namespace plait::cli
