#include "plugins/data/csv/csv_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "plugins/data/csv/csv_cells.hpp"

namespace plait::data::csv {
namespace {

constexpr size_t kMaxColumns = 65536;
enum class Use : uint8_t { kNone, kInput, kTarget, kWeight };

std::string shown(std::string_view cell) {
  std::string text;
  for (const char c : cell.substr(0, 40)) text += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return "'" + text + (cell.size() > 40 ? "…'" : "'");
}

// The role of each column, and the offset of its value in the row.
class Layout {
 public:
  Layout(const support::SourceFile& source, const Request& request, std::vector<std::string> names)
      : source_(source),
        names_(std::move(names)),
        use_(names_.size(), Use::kNone),
        slot_(names_.size(), 0) {
    if (!request.weight.empty()) assign(request.weight, Use::kWeight, "weight", weights_);
    for (const std::string& n : request.target) assign(n, Use::kTarget, "target", targets_);
    for (const std::string& n : request.input) assign(n, Use::kInput, "input", inputs_);
    if (request.input.empty())
      for (size_t i = 0; i < use_.size(); ++i)
        if (use_[i] == Use::kNone) use_[i] = Use::kInput, slot_[i] = inputs_++;
    if (inputs_ == 0)
      fail(PLAIT_ERR_CONFIG, source_.text() + ": no column is left for the input; " + known());
  }
  size_t columns() const { return names_.size(); }
  size_t inputs() const { return inputs_; }
  size_t targets() const { return targets_; }
  Use use(size_t column) const { return use_[column]; }
  size_t slot(size_t column) const { return slot_[column]; }
  const std::string& name(size_t column) const { return names_[column]; }

 private:
  void assign(const std::string& name, Use use, const char* option, size_t& count) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end())
      fail(PLAIT_ERR_CONFIG, source_.text() + ": " + option + " names column '" + name +
                                 "', which does not exist; " + known());
    if (std::find(found + 1, names_.end(), name) != names_.end())
      fail(PLAIT_ERR_DATA,
           source_.text() + ", line 1: two columns are called '" + name + "'; rename one");
    const auto i = static_cast<size_t>(found - names_.begin());
    if (use_[i] != Use::kNone)
      fail(PLAIT_ERR_CONFIG, source_.text() + ": column '" + name +
                                 "' is named twice in input, target and weight; use it once");
    use_[i] = use;
    slot_[i] = count++;
  }
  std::string known() const {
    std::string text = "the columns are";
    for (size_t i = 0; i < names_.size() && i < 20; ++i)
      text += (i ? ", " : " ") + shown(names_[i]);
    return text + (names_.size() > 20 ? ", …" : "");
  }

  const support::SourceFile& source_;
  std::vector<std::string> names_;
  std::vector<Use> use_;
  std::vector<size_t> slot_;
  size_t inputs_ = 0, targets_ = 0, weights_ = 0;
};

double number(const Cells& cells, std::string_view cell, const std::string& name) {
  std::string_view text = cell;
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  if (text.empty())
    cells.bad("column " + shown(name) + " is empty, expected a number; fill it or drop the line");
  if (text.front() == '+' && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range)
    cells.bad(shown(cell) + " does not fit a 64-bit number; scale the column");
  if (status != std::errc() || end != text.data() + text.size())
    cells.bad(shown(cell) + " in column " + shown(name) +
              " is not a number; name the columns to read in `input`");
  if (!std::isfinite(value)) cells.bad(shown(cell) + " is not finite; fill it or drop the line");
  return value;
}

float real(const Cells& cells, std::string_view cell, const std::string& name) {
  const auto value = static_cast<float>(number(cells, cell, name));
  if (!std::isfinite(value)) cells.bad(shown(cell) + " is too large for f32; scale the column");
  return value;
}

int32_t integer(const Cells& cells, std::string_view cell, const std::string& name) {
  const double value = number(cells, cell, name);
  if (value != std::floor(value) || value < -2147483648.0 || value > 2147483647.0)
    cells.bad(shown(cell) +
              " is not a 32-bit integer, expected one because target_type is \"i32\"");
  return static_cast<int32_t>(value);
}

std::vector<std::string> column_names(Cells& cells, const Request& request) {
  std::vector<std::string> names;
  std::string_view cell;
  while (cells.next_cell(cell)) {
    if (names.size() == kMaxColumns) cells.bad("more than 65536 columns; is the separator right?");
    names.emplace_back(request.header ? std::string(cell) : std::to_string(names.size()));
  }
  return names;
}

// Reads one line into row `table.rows`, whose memory is allocated already.
void read_row(Cells& cells, const Layout& layout, const Request& request, Table& table) {
  float* input = table.input.as<float>() + static_cast<size_t>(table.rows) * layout.inputs();
  const size_t target = static_cast<size_t>(table.rows) * layout.targets();
  std::string_view cell;
  size_t column = 0;
  for (; cells.next_cell(cell); ++column) {
    if (column >= layout.columns())
      cells.bad("one cell too many, expected " + std::to_string(layout.columns()) +
                " as in the first line");
    const std::string& name = layout.name(column);
    const size_t slot = layout.slot(column);
    switch (layout.use(column)) {
      case Use::kInput:
        input[slot] = real(cells, cell, name);
        break;
      case Use::kTarget:
        if (request.integer_target)
          table.target.as<int32_t>()[target + slot] = integer(cells, cell, name);
        else
          table.target.as<float>()[target + slot] = real(cells, cell, name);
        break;
      case Use::kWeight: {
        const float weight = real(cells, cell, name);
        if (weight < 0) cells.bad("the weight is " + shown(cell) + ", expected 0 or more");
        table.weight.as<float>()[table.rows] = weight;
        break;
      }
      case Use::kNone:
        break;
    }
  }
  if (column != layout.columns())
    cells.bad("the line ends after " + std::to_string(column) + " cells, expected " +
              std::to_string(layout.columns()) + " as in the first line");
}

}  // namespace

Table parse(const support::SourceFile& source, std::string_view text, const Request& request) {
  if (text.starts_with("\x1f\x8b"))
    source.bad(0, "this is gzip data, expected text; unpack it with gunzip first");
  Cells cells(source, text, request.separator);
  if (!cells.next_line())
    source.bad(0,
               "the file is empty, expected " + std::string(request.header ? "a header" : "rows"));
  const Layout layout(source, request, column_names(cells, request));
  if (!request.header) cells.rewind();

  Table table;
  table.inputs = layout.inputs();
  table.targets = layout.targets();
  while (cells.next_line()) {
    const auto rows = static_cast<size_t>(table.rows) + 1;
    table.input.resize(rows * table.inputs * 4);
    table.target.resize(rows * table.targets * 4);
    if (!request.weight.empty()) table.weight.resize(rows * 4);
    read_row(cells, layout, request, table);
    ++table.rows;
  }
  if (table.rows == 0) source.bad(text.size(), "the file has a header but no rows");
  table.input.shrink();
  table.target.shrink();
  table.weight.shrink();
  return table;
}

}  // namespace plait::data::csv
