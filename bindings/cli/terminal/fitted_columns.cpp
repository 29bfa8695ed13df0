#include "bindings/cli/terminal/fitted_columns.hpp"

#include <algorithm>

#include "bindings/cli/terminal/cells.hpp"

namespace plait::cli {
namespace {

constexpr int kLeastName = 8, kLeastState = 7, kLeastRest = 16;

int sum_of(const std::vector<FittedColumn>& columns) {
  int sum = -kColumnGap;
  for (const FittedColumn& c : columns) sum += c.width + kColumnGap;
  return sum;
}

}  // namespace

void fit_columns(std::vector<FittedColumn>& columns, int room, bool utf8, Names names) {
  for (FittedColumn& c : columns) {
    c.width = columns_of(c.head, utf8);
    for (const std::string& text : c.cells) c.width = std::max(c.width, columns_of(text, utf8));
  }
  const auto has_rest = [&] { return columns.back().importance == kRestColumn; };
  const int name = columns[0].width, rest = has_rest() ? columns.back().width : 0;
  if (has_rest()) columns.back().width = std::min(rest, kLeastRest);
  // A name that is cut has the room of the rest: names tell more.
  if (has_rest() && sum_of(columns) > room) columns.pop_back();
  const bool whole = names == Names::kWhole;
  columns[0].width = whole ? name : std::min(name, kLeastName);
  // "interr…" is enough to see that there is another state than "running".
  if (columns.size() > 1 && sum_of(columns) > room)
    columns[1].width = std::min(columns[1].width, kLeastState);
  while (columns.size() > 1 && sum_of(columns) > room)
    columns.erase(std::min_element(
        columns.begin(), columns.end(),
        [](const FittedColumn& a, const FittedColumn& b) { return a.importance < b.importance; }));
  const int left = columns[0].width + room - sum_of(columns);
  columns[0].width = std::clamp(left, whole ? name : 1, name);
  if (has_rest())
    columns.back().width = std::min(columns.back().width + room - sum_of(columns), rest);
}

std::string text_of(const std::vector<FittedColumn>& columns, bool utf8) {
  std::string all;
  for (size_t row = 0; row <= columns[0].cells.size(); ++row) {
    std::string line;
    for (size_t k = 0; k < columns.size(); ++k) {
      const FittedColumn& c = columns[k];
      line += (k ? std::string(kColumnGap, ' ') : "") + padded(row ? c.cells[row - 1] : c.head,
                                                               c.width, utf8, c.right,
                                                               k == 0 ? Cut::kBegin : Cut::kEnd);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    all += line + "\n";
  }
  return all;
}

}  // namespace plait::cli
