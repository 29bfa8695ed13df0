// The roles of the columns of a CSV file, and where their values lie in a row.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/csv/csv_cells.hpp"

namespace plait::data::csv {

enum class Use : uint8_t { kNone, kInput, kCategory, kTarget, kWeight, kKey, kInteger };

// A column: numbers of it are at `slot` of their row, and so is the first of its one-hot columns.
struct Column {
  std::string name;
  Use use = Use::kNone;
  size_t slot = 0;
  // Of a column of texts: ids by text.
  std::map<std::string, int32_t, std::less<>> ids;
};

class Columns {
 public:
  // Errors: PLAIT_ERR_CONFIG for a column that does not exist or has two roles; PLAIT_ERR_DATA for
  // two columns of one name, of which one is read.
  // first_line: the beginning of its text where the separator made one cell of it, else nothing.
  Columns(const support::SourceFile& source, const Request& request, std::vector<std::string> names,
          std::string first_line, bool header);
  // Gives texts their ids and the inputs their places. Errors: PLAIT_ERR_CONFIG.
  void place(const Fit& fit);

  // Categories are found out: an input column that holds a text becomes one.
  bool finds_categories() const;
  void name_places(Table& table) const;
  std::vector<Column>& all() { return columns_; }
  const std::vector<Column>& all() const { return columns_; }
  // The category with the most texts; nullptr: there is no category.
  const Column* largest_category() const;
  size_t inputs() const { return inputs_; }          // f32 in a row
  size_t one_hot() const { return one_hot_; }        // of them 0 and 1, for the texts of categories
  size_t targets() const { return targets_; }        // in a row
  size_t categories() const { return categories_; }  // ids in a row
  bool is_text(const Column& column) const;

 private:
  void assign(const std::string& name, Use use, const char* option, size_t& count);
  void assign_categories();
  void check_names() const;
  void number_ids(Column& column, const std::vector<std::string>& texts, const char* option);
  std::string known() const;
  std::string other_separator() const;

  const support::SourceFile& source_;
  const Request& request_;
  std::vector<Column> columns_;
  std::vector<size_t> order_;  // inputs and categories as a row has them
  const std::string first_line_;
  const bool header_;
  size_t inputs_ = 0, targets_ = 0, weights_ = 0, keys_ = 0, integers_ = 0, categories_ = 0;
  size_t one_hot_ = 0;
};

// What to do about a category of too many texts, the end of a message.
extern const char* const kFewer;
// A text of a column for a message: in quotes, shortened, without control characters.
std::string shown(std::string_view cell);

}  // namespace plait::data::csv
