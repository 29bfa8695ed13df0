#include "plugins/data/csv/csv_dialect.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "plugins/data/csv/csv_cells.hpp"

namespace plait::data::csv {
namespace {

constexpr size_t kLines = 20;
// Commas last: they are also in texts and numbers.
constexpr std::string_view kSeparators = "\t;|,";
using Counts = std::array<size_t, kSeparators.size()>;

// How often a line has each separator outside of quotes; moves `at` behind the line.
Counts counts_of_line(std::string_view text, size_t& at) {
  Counts counts{};
  for (bool quoted = false; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\n' || c == '\r') break;
    if (const size_t i = kSeparators.find(c); i != std::string_view::npos) ++counts[i];
  }
  ++at;
  return counts;
}

std::vector<std::string> cells_of_line(Cells& cells) {
  std::vector<std::string> all;
  std::string_view cell;
  if (cells.next_line())
    while (cells.next_cell(cell)) all.emplace_back(trimmed(cell));
  return all;
}

bool are_indices(const std::vector<std::string>& cells) {
  for (size_t i = 0; i < cells.size(); ++i)
    if (cells[i] != std::to_string(i)) return false;
  return cells.size() > 1;
}

// Whether a number that no double can hold is too small for one, not too large: the decimal
// exponent of its first digit other than 0 says so.
bool is_too_small(std::string_view number) {
  constexpr int64_t kFar = int64_t{1} << 60;  // beyond the length of any text
  const size_t e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, e);
  int64_t exponent = 0;
  if (e < number.size()) {
    std::string_view written = number.substr(e + 1);
    if (written.starts_with('+')) written.remove_prefix(1);
    const auto status =
        std::from_chars(written.data(), written.data() + written.size(), exponent).ec;
    if (status == std::errc::result_out_of_range) return written.starts_with('-');
  }
  const size_t point = std::min(digits.find('.'), digits.size());
  const size_t first = std::min(digits.find_first_of("123456789"), digits.size());
  return std::clamp(exponent, -kFar, kFar) + static_cast<int64_t>(point) <
         static_cast<int64_t>(first);
}

}  // namespace

std::string_view trimmed(std::string_view cell) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!cell.empty() && blank(cell.front())) cell.remove_prefix(1);
  while (!cell.empty() && blank(cell.back())) cell.remove_suffix(1);
  return cell;
}

bool is_number(std::string_view cell, char decimal, double& value) {
  std::string_view text = trimmed(cell);
  char buffer[64];
  if (decimal != '.' && text.find(decimal) != std::string_view::npos) {
    if (text.size() > sizeof buffer || text.find('.') != std::string_view::npos) return false;
    std::replace_copy(text.begin(), text.end(), buffer, decimal, '.');
    text = {buffer, text.size()};
  }
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end != text.data() + text.size()) return false;
  if (status == std::errc::result_out_of_range)
    value = is_too_small(text) ? 0 : std::numeric_limits<double>::infinity();
  return status == std::errc() || status == std::errc::result_out_of_range;
}

bool is_missing(std::string_view cell, const Request& request) {
  const auto& all = request.missing_texts;
  const std::string_view text = trimmed(cell);
  const bool may = text.empty() || request.missing_begin.find(text[0]) != std::string::npos;
  return may && std::find(all.begin(), all.end(), text) != all.end();
}

char separator_of(std::string_view text, char decimal) {
  Counts first{};
  std::array<bool, kSeparators.size()> same;
  same.fill(true);
  size_t lines = 0;
  for (size_t at = 0; at < text.size() && lines < kLines;) {
    const size_t begin = at;
    const Counts counts = counts_of_line(text, at);
    const size_t end = std::min(at, text.size());
    if (text.substr(begin, end - begin).find_first_not_of("\r\n") == std::string_view::npos)
      continue;
    if (lines++ == 0) first = counts;
    for (size_t i = 0; i < counts.size(); ++i) same[i] = same[i] && counts[i] == first[i];
  }
  for (size_t i = 0; i < first.size(); ++i)
    if (same[i] && first[i] > 0 && kSeparators[i] != decimal) return kSeparators[i];
  return decimal == ',' ? ';' : ',';
}

bool has_header(const support::SourceFile& source, std::string_view text, const Request& request) {
  Cells cells(source, text, request.separator);
  const std::vector<std::string> first = cells_of_line(cells), second = cells_of_line(cells);
  if (are_indices(first)) return true;
  size_t numbers = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    double value = 0;
    if (is_number(first[i], request.decimal, value))
      ++numbers;
    else if (i < second.size() && !is_missing(first[i], request) && !first[i].empty() &&
             is_number(second[i], request.decimal, value))
      return true;
  }
  return numbers == 0;
}

}  // namespace plait::data::csv
