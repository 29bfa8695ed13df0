#include "plugins/data/csv/csv_file.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "kit/valid_utf8.hpp"
#include "plugins/data/csv/csv_columns.hpp"
#include "plugins/data/csv/csv_dialect.hpp"

#include <xxhash.h>

namespace plait::data::csv {
namespace {

constexpr size_t kMaxColumns = 65536, kMaxTexts = 1 << 20;
constexpr uint64_t kMaxOneHot = uint64_t{2} << 30;                   // bytes
constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();  // no cell is read as that

// Reads cells of one file by the roles of their columns.
class Reader {
 public:
  Reader(const support::SourceFile& source, std::string_view text, const Request& request)
      : cells_(source, text, request.separator),
        request_(request),
        header_(request.header == Header::kYes ||
                (request.header == Header::kAuto && has_header(source, text, request))),
        columns_(read_columns(source)) {}

  // Makes categories of the inputs that hold texts, if the request says so.
  // fitted: those that it names.
  void find_categories(const Fit* fitted);
  // The texts of each column of texts, in the order of their ids.
  Fit find_texts();
  void read(Table& table, const Fit& fit);
  const Columns& columns() const { return columns_; }

 private:
  Columns read_columns(const support::SourceFile& source);
  void rewind() {
    dropped_ = 0;
    cells_.rewind();
    if (header_) skip_line();
  }
  void skip_line() {
    cells_.next_line();
    skip_cells();
  }
  void skip_cells() {
    std::string_view cell;
    while (cells_.next_cell(cell)) {
    }
  }
  template <class F>
  void each_cell(F&& f);
  bool next_row();
  void check_one_hot();
  void read_row(Table& table);
  void read_cell(Table& table, const Column& column, std::string_view cell);
  int32_t id(const Column& column, std::string_view cell) const;
  double number(const Column& column, std::string_view cell) const;
  float real(const Column& column, std::string_view cell) const;
  int32_t integer(const Column& column, std::string_view cell) const;
  void check_text(std::string_view cell) const;
  [[noreturn]] void missing(const Column& column, std::string_view cell) const;
  [[noreturn]] void no_number(const Column& column, std::string_view cell) const;

  Cells cells_;
  const Request& request_;
  const bool header_;
  Columns columns_;
  int64_t dropped_ = 0;  // lines that next_row() has left out
};

Columns Reader::read_columns(const support::SourceFile& source) {
  if (!cells_.next_line())
    source.bad(0, std::string("the file is empty, expected ") +
                      (request_.header == Header::kNo ? "rows" : "a header"));
  std::vector<std::string> names;
  std::string first;
  std::string_view cell;
  while (cells_.next_cell(cell)) {
    if (names.size() == kMaxColumns) cells_.bad("more than 65536 columns; is the separator right?");
    if (header_) check_text(cell);
    if (names.empty()) first = trimmed(cell).substr(0, 4096);
    names.emplace_back(header_ ? std::string(trimmed(cell)) : std::to_string(names.size()));
  }
  if (names.size() > 1) first.clear();
  return Columns(source, request_, std::move(names), std::move(first), header_);
}

// Names of columns and classes are shown, and written in JSON.
void Reader::check_text(std::string_view cell) const {
  std::string valid;
  if (kit::replace_invalid(cell, valid).n > 0)
    cells_.bad(shown(valid) + " is not UTF-8; convert the file (iconv -f LATIN1 -t UTF-8)");
}

void Reader::missing(const Column& column, std::string_view cell) const {
  const std::string what = trimmed(cell).empty()
                               ? "column " + shown(column.name) + " is empty"
                               : shown(cell) + " in column " + shown(column.name) + " is missing";
  if (column.use == Use::kKey)
    cells_.bad(what +
               ", expected a text; fill it, or set missing = \"drop\" to leave such lines out");
  if (columns_.is_text(column))
    cells_.bad(what + ", expected a text; set missing = \"drop\" to leave such lines out, or " +
               "take it out of missing_texts to make it a category of its own");
  if (column.use != Use::kInput)
    cells_.bad(what + ", expected a number; fill it, or set missing = \"drop\" to leave such " +
               "lines out");
  cells_.bad(what +
             ", expected a number; fill it, or set missing = \"mean\" (of the column), "
             "\"zero\" or \"drop\" (the line)");
}

// Why a cell is no number, as far as it can be guessed.
void Reader::no_number(const Column& column, std::string_view cell) const {
  const std::string what = shown(cell) + " in column " + shown(column.name) + " is not a number; ";
  for (const char c : {';', '\t', '|', ','}) {
    if (cell.find(c) == std::string_view::npos || c == request_.separator) continue;
    std::string digits(trimmed(cell));
    const bool decimal = c == ',' && std::count(digits.begin(), digits.end(), ',') == 1 &&
                         digits.find_first_not_of("0123456789,+-eE") == std::string::npos;
    if (decimal) cells_.bad(what + "if it is a decimal comma, set decimal = \",\"");
    const std::string name = c == '\t' ? "tab" : c == '|' ? "pipe" : std::string(1, c);
    cells_.bad(what + "is that the separator? Then set separator = \"" + name + "\" or \"auto\"");
  }
  if (!header_ && cells_.line() == 1)
    cells_.bad(what +
               "if the first line holds the names, set header = true; else name the columns "
               "to read in `input`, and columns of texts in `categories`");
  if (column.use == Use::kTarget)
    cells_.bad(what + "if the target is a class, set target_type = \"class\"");
  cells_.bad(what +
             "name the columns to read in `input`, columns of texts in `categories`, and "
             "what stands for a missing value in `missing_texts`");
}

double Reader::number(const Column& column, std::string_view cell) const {
  double value = 0;
  if (!is_number(cell, request_.decimal, value)) {
    if (trimmed(cell).empty()) missing(column, cell);
    no_number(column, cell);
  }
  if (std::isfinite(value)) return value;
  if (std::isnan(value) || cell.find_first_of("iI") != std::string_view::npos)
    cells_.bad(shown(cell) + " is not finite; fill it or drop the line");
  cells_.bad(shown(cell) + " does not fit a 64-bit number; scale the column");
}

float Reader::real(const Column& column, std::string_view cell) const {
  const auto value = static_cast<float>(number(column, cell));
  if (!std::isfinite(value)) cells_.bad(shown(cell) + " is too large for f32; scale the column");
  return value;
}

int32_t Reader::integer(const Column& column, std::string_view cell) const {
  const double value = number(column, cell);
  if (value != std::floor(value) || value < -2147483648.0 || value > 2147483647.0)
    cells_.bad(
        shown(cell) + " is not a 32-bit integer, expected one because " +
        (column.use == Use::kTarget ? "target_type is \"i32\"" : "`integers` names the column"));
  return static_cast<int32_t>(value);
}

int32_t Reader::id(const Column& column, std::string_view cell) const {
  const auto found = column.ids.find(trimmed(cell));
  if (found != column.ids.end()) return found->second;
  const std::string what = shown(cell) + " in column " + shown(column.name);
  if (column.use == Use::kTarget)
    cells_.bad(what + " is none of the " + std::to_string(column.ids.size()) +
               " classes; add it to `classes`, in this dataset and in that of training");
  cells_.bad(what + " is none of the " + std::to_string(column.ids.size()) +
             " texts of that column in the file of fit_on");
}

template <class F>
void Reader::each_cell(F&& f) {
  const std::vector<Column>& all = columns_.all();
  std::string_view cell;
  size_t n = 0;
  for (; cells_.next_cell(cell); ++n) {
    if (n >= all.size())
      cells_.bad("one cell too many, expected " + std::to_string(all.size()) +
                 " as in the first line");
    f(n, cell);
  }
  if (n != all.size())
    cells_.bad("the line ends after " + std::to_string(n) + " cells, expected " +
               std::to_string(all.size()) + " as in the first line");
}

// Advances to the next line that is a sample: one with a missing cell is none if such lines are
// dropped, whatever its other cells are.
bool Reader::next_row() {
  while (cells_.next_line()) {
    if (request_.missing != Missing::kDrop) return true;
    bool complete = true;
    each_cell([&](size_t i, std::string_view cell) {
      complete = complete && (columns_.all()[i].use == Use::kNone || !is_missing(cell, request_));
    });
    if (complete) {
      cells_.restart_line();
      return true;
    }
    ++dropped_;
  }
  return false;
}

// Texts that are all finite numbers are ordered as such, others by their bytes: NaN has no place in
// an order.
std::vector<std::string> sorted(const std::set<std::string, std::less<>>& texts, char decimal) {
  std::vector<std::pair<double, std::string>> numbers;
  for (const std::string& text : texts) {
    double value = 0;
    if (!is_number(text, decimal, value) || !std::isfinite(value))
      return {texts.begin(), texts.end()};
    numbers.emplace_back(value, text);
  }
  std::stable_sort(numbers.begin(), numbers.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> all;
  for (auto& [value, text] : numbers) all.push_back(std::move(text));
  return all;
}

void Reader::find_categories(const Fit* fitted) {
  if (!columns_.finds_categories()) return;
  if (fitted) {
    for (Column& c : columns_.all())
      if (c.use == Use::kInput && fitted->categories.contains(c.name)) c.use = Use::kCategory;
    return;
  }
  rewind();
  while (next_row())
    each_cell([&](size_t i, std::string_view cell) {
      Column& column = columns_.all()[i];
      double value = 0;
      if (column.use == Use::kInput && !is_missing(cell, request_) &&
          !is_number(cell, request_.decimal, value))
        column.use = Use::kCategory;
    });
}

Fit Reader::find_texts() {
  const std::vector<Column>& all = columns_.all();
  std::vector<std::set<std::string, std::less<>>> texts(all.size());
  Fit fit;
  fit.classes = request_.classes;
  const auto wanted = [&](const Column& c) {
    return columns_.is_text(c) && (c.use == Use::kCategory || request_.classes.empty());
  };
  if (std::none_of(all.begin(), all.end(), wanted)) return fit;
  rewind();
  while (next_row())
    each_cell([&](size_t i, std::string_view cell) {
      if (!wanted(all[i]) || is_missing(cell, request_)) return;
      const std::string_view text = trimmed(cell);
      if (texts[i].find(text) != texts[i].end()) return;
      if (texts[i].size() == kMaxTexts)
        cells_.bad("column " + shown(all[i].name) +
                   " has more than 1048576 different texts; is it a category?");
      check_text(text);
      texts[i].emplace(text);
    });
  for (size_t i = 0; i < all.size(); ++i)
    if (wanted(all[i]))
      (all[i].use == Use::kTarget ? fit.classes : fit.categories[all[i].name]) =
          sorted(texts[i], request_.decimal);
  return fit;
}

void Reader::read_cell(Table& table, const Column& column, std::string_view cell) {
  const auto row = static_cast<size_t>(table.rows);
  switch (column.use) {
    case Use::kInput: {
      float& to = table.input.as<float>()[row * table.inputs + column.slot];
      if (!is_missing(cell, request_))
        to = real(column, cell);
      else
        to = request_.missing == Missing::kZero ? 0 : kMissing;
      break;
    }
    case Use::kCategory:
      if (is_missing(cell, request_)) {  // of missing = "nan"
        if (!request_.one_hot)
          table.category.as<int32_t>()[row * table.categories + column.slot] = -1;
      } else if (request_.one_hot)
        table.input
            .as<float>()[row * table.inputs + column.slot + static_cast<size_t>(id(column, cell))] =
            1;
      else
        table.category.as<int32_t>()[row * table.categories + column.slot] = id(column, cell);
      break;
    case Use::kTarget: {
      const size_t at = row * table.targets + column.slot;
      if (request_.target_type == TargetType::kReal)
        table.target.as<float>()[at] = real(column, cell);
      else
        table.target.as<int32_t>()[at] =
            request_.target_type == TargetType::kClass ? id(column, cell) : integer(column, cell);
      break;
    }
    case Use::kWeight: {
      const float weight = real(column, cell);
      if (weight < 0) cells_.bad("the weight is " + shown(cell) + ", expected 0 or more");
      table.weight.as<float>()[row] = weight;
      break;
    }
    case Use::kKey: {
      const std::string_view text = trimmed(cell);
      table.key.as<uint64_t>()[row] = XXH3_64bits(text.data(), text.size());
      break;
    }
    case Use::kInteger:
      table.integers[column.slot].as<int32_t>()[row] = integer(column, cell);
      break;
    case Use::kNone:
      break;
  }
}

// Memory of so many rows.
void resize(Table& table, const Request& request, size_t rows) {
  table.input.resize(rows * table.inputs * 4);
  table.target.resize(rows * table.targets * 4);
  table.category.resize(rows * table.categories * 4);
  for (support::Bytes& one : table.integers) one.resize(rows * 4);
  if (!request.weight.empty()) table.weight.resize(rows * 4);
  if (!request.key.empty()) table.key.resize(rows * 8);
}

// Reads one line into row `table.rows`, whose memory is allocated already.
void Reader::read_row(Table& table) {
  each_cell([&](size_t i, std::string_view cell) {
    const Column& column = columns_.all()[i];
    if (column.use == Use::kNone) return;
    const bool filled = (column.use == Use::kInput && request_.missing != Missing::kError) ||
                        (column.use == Use::kCategory && request_.missing == Missing::kNan);
    if (!filled && is_missing(cell, request_)) missing(column, cell);
    read_cell(table, column, cell);
  });
}

// Numbers take no more memory than their text, about; one-hot columns may take any amount.
void Reader::check_one_hot() {
  const uint64_t each = columns_.one_hot() * sizeof(float);
  constexpr uint64_t kLeastLine = 2;  // bytes
  if (each == 0 || cells_.bytes() / kLeastLine <= kMaxOneHot / each) return;
  uint64_t lines = 0;
  rewind();
  while (next_row()) {
    skip_cells();
    ++lines;
  }
  if (lines <= kMaxOneHot / each) return;
  const Column& largest = *columns_.largest_category();
  fail(PLAIT_ERR_CONFIG, cells_.source().text() + ": column " + shown(largest.name) + " has " +
                             std::to_string(largest.ids.size()) +
                             " different texts: " + std::to_string(columns_.one_hot()) +
                             " one-hot columns of " + std::to_string(lines) + " lines take " +
                             std::to_string((lines * each) >> 20) + " MiB, expected 2048 at most" +
                             kFewer);
}

// Puts the mean of its column in the place of each missing number.
void fill_means(Table& table, const Columns& columns, const Fit* fitted,
                const support::SourceFile& source) {
  const auto rows = static_cast<size_t>(table.rows);
  auto* input = table.input.as<float>();
  for (const Column& c : columns.all()) {
    if (c.use != Use::kInput) continue;
    double sum = 0, n = 0;
    for (size_t r = 0; r < rows; ++r)
      if (const float v = input[r * table.inputs + c.slot]; !std::isnan(v)) sum += v, ++n;
    if (n > 0) table.fit.means[c.name] = sum / n;
    const bool gaps = n < static_cast<double>(rows);
    const std::map<std::string, double>& means = fitted ? fitted->means : table.fit.means;
    const auto mean = means.find(c.name);
    if (gaps && mean == means.end())
      fail(PLAIT_ERR_DATA, source.text() + ": column " + shown(c.name) +
                               " has no number to take the mean of; leave it out of `input`");
    for (size_t r = 0; gaps && r < rows; ++r)
      if (float& v = input[r * table.inputs + c.slot]; std::isnan(v))
        v = static_cast<float>(mean->second);
  }
}

void Reader::read(Table& table, const Fit& fit) {
  columns_.place(fit);
  table.header = header_;
  table.inputs = columns_.inputs();
  table.targets = columns_.targets();
  table.categories = columns_.categories();
  table.integers.resize(request_.integers.size());
  check_one_hot();
  columns_.name_places(table);
  rewind();
  while (next_row()) {
    const auto rows = static_cast<size_t>(table.rows) + 1;
    resize(table, request_, rows);
    if (table.inputs > 0)
      std::memset(table.input.data() + (rows - 1) * table.inputs * 4, 0, table.inputs * 4);
    read_row(table);
    ++table.rows;
  }
  table.dropped = dropped_;
  resize(table, request_, static_cast<size_t>(table.rows));
}

}  // namespace

Table parse(const support::SourceFile& source, std::string_view text, const Request& given,
            const Fit* fitted) {
  if (const size_t at = text.find('\0'); at != std::string_view::npos)
    source.bad(at,
               "a byte 0, which no text has: this is UTF-16, a spreadsheet or another binary "
               "file; save it as CSV in UTF-8");
  Request request = given;
  for (const std::string& missing : request.missing_texts)
    if (!missing.empty()) request.missing_begin += missing[0];
  if (request.separator == 0) request.separator = separator_of(text, request.decimal);
  if (request.separator == request.decimal)
    fail(PLAIT_ERR_CONFIG, source.text() + ": separator and decimal are both '" +
                               std::string(1, request.decimal) + "'; set separator = \";\"");
  Reader reader(source, text, request);
  Table table;
  reader.find_categories(fitted);
  table.fit = fitted ? *fitted : reader.find_texts();
  reader.read(table, table.fit);
  if (table.rows == 0)
    source.bad(text.size(), table.dropped ? "every line has a missing cell and is dropped"
                                          : "the file has a header but no rows");
  if (request.missing == Missing::kMean) fill_means(table, reader.columns(), fitted, source);
  for (support::Bytes* b :
       {&table.input, &table.target, &table.weight, &table.key, &table.category})
    b->shrink();
  for (support::Bytes& one : table.integers) one.shrink();
  return table;
}

}  // namespace plait::data::csv
