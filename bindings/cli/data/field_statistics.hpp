// What the numbers of a field are like: ranges, means, missing numbers, classes with their counts.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// The numbers of a field of one sample, as plait_dataset_read() gives them. dtype: its name.
std::vector<double> numbers_of(const std::string& dtype, std::span<const char> bytes);

class FieldStatistics {
 public:
  // field: as plait_dataset_describe() has it. Columns are distinguished in a field of one axis and
  // at most 64 columns.
  explicit FieldStatistics(const Json& field);
  void add(std::span<const double> sample);

  const std::string& name() const { return name_; }
  // [{"column", "min", "max", "mean", "std", "nan", "counts"}, ...], one for each column, or one
  // for all numbers. counts: of whole numbers, by the text that they stand for.
  Json json() const;
  // Lines for people, which begin with the field's name and fit a terminal of so many columns; 0:
  // of any.
  std::string text(int columns, bool utf8) const;

 private:
  struct Column {
    std::string name;
    std::vector<std::string> classes;                   // texts of the numbers 0, 1, …
    double least = 0, most = 0, mean = 0, squares = 0;  // by Welford's method
    uint64_t n = 0, missing = 0;
    std::map<int64_t, uint64_t> counts;
    bool counted = false;  // whole numbers, of which there are few

    void add(double value);
    double deviation() const;
    std::string label(int64_t number) const;
    std::string counts_text() const;
  };
  std::string name_;
  std::vector<Column> columns_;
};

}  // namespace plait::cli
