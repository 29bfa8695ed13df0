#include "bindings/cli/data/field_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bindings/cli/data/shown.hpp"
#include "bindings/cli/terminal/cells.hpp"
#include "bindings/cli/terminal/table.hpp"

namespace plait::cli {
namespace {

constexpr size_t kMostColumns = 64, kMostCounts = 1000, kShownCounts = 20;

template <class T>
void append(std::span<const char> bytes, std::vector<double>& to) {
  T value;
  for (size_t at = 0; at + sizeof value <= bytes.size(); at += sizeof value) {
    std::memcpy(&value, bytes.data() + at, sizeof value);
    to.push_back(static_cast<double>(value));
  }
}

// IEEE 754 binary16: a sign, 5 bits of exponent, 10 of mantissa.
double from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return mantissa ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(mantissa + 1024, exponent - 25);
}

double from_bfloat(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return static_cast<double>(value);
}

std::string number_text(double v) { return strf("%.6g", v); }

}  // namespace

std::vector<double> numbers_of(const std::string& dtype, std::span<const char> bytes) {
  std::vector<double> all;
  if (dtype == "f32") append<float>(bytes, all);
  if (dtype == "f64") append<double>(bytes, all);
  if (dtype == "i32") append<int32_t>(bytes, all);
  if (dtype == "i64") append<int64_t>(bytes, all);
  if (dtype == "u8" || dtype == "bool") append<uint8_t>(bytes, all);
  if (dtype == "f16" || dtype == "bf16") {
    append<uint16_t>(bytes, all);
    for (double& v : all) {
      const auto bits = static_cast<uint16_t>(v);
      v = dtype == "f16" ? from_half(bits) : from_bfloat(bits);
    }
  }
  return all;
}

FieldStatistics::FieldStatistics(const Json& field) : name_(field.at("name").get<std::string>()) {
  const Json& shape = field.at("shape");
  const bool by_column = shape.size() == 1 && shape[0].get<uint64_t>() <= kMostColumns;
  const std::string dtype = field.at("dtype");
  columns_.resize(by_column ? shape[0].get<size_t>() : 1);
  for (size_t i = 0; i < columns_.size(); ++i) {
    Column& c = columns_[i];
    // An image of bytes has no classes.
    c.counted =
        (dtype[0] == 'i' || dtype == "u8" || dtype == "bool") && (by_column || shape.empty());
    if (const auto names = field.find("columns"); names != field.end() && i < names->size())
      c.name = one_line((*names)[i].get<std::string>());
    if (const auto classes = field.find("classes"); classes != field.end() && i < classes->size())
      for (const Json& text : (*classes)[i]) c.classes.push_back(one_line(text.get<std::string>()));
    if (c.name.empty() && by_column) c.name = std::to_string(i);
  }
}

void FieldStatistics::Column::add(double value) {
  const bool no_class = !classes.empty() && value < 0;
  if (std::isnan(value) || no_class) {
    ++missing;
    return;
  }
  least = n == 0 ? value : std::min(least, value);
  most = n == 0 ? value : std::max(most, value);
  const double before = value - mean;
  mean += before / static_cast<double>(++n);
  squares += before * (value - mean);
  if (!counted) return;
  ++counts[static_cast<int64_t>(value)];
  if (counts.size() <= kMostCounts) return;
  counted = false;
  counts.clear();
}

void FieldStatistics::add(std::span<const double> sample) {
  if (columns_.size() == 1)
    for (const double v : sample) columns_[0].add(v);
  else
    for (size_t i = 0; i < std::min(sample.size(), columns_.size()); ++i)
      columns_[i].add(sample[i]);
}

double FieldStatistics::Column::deviation() const {
  return n == 0 ? 0 : std::sqrt(squares / static_cast<double>(n));
}

std::string FieldStatistics::Column::label(int64_t number) const {
  const bool known = number >= 0 && static_cast<size_t>(number) < classes.size();
  return known ? classes[static_cast<size_t>(number)] : std::to_string(number);
}

std::string FieldStatistics::Column::counts_text() const {
  std::string text = std::to_string(counts.size()) + (counts.size() == 1 ? " class:" : " classes:");
  size_t shown = 0;
  for (const auto& [number, count] : counts) {
    if (shown++ == kShownCounts) break;
    text += strf("%s %s (%llu)", shown > 1 ? "," : "", label(number).c_str(),
                 static_cast<unsigned long long>(count));
  }
  if (counts.size() > kShownCounts) text += strf(", and %zu more", counts.size() - kShownCounts);
  if (missing > 0) text += strf("; %llu missing", static_cast<unsigned long long>(missing));
  return text;
}

Json FieldStatistics::json() const {
  Json all = Json::array();
  for (const Column& c : columns_) {
    Json one = Json::object();
    if (!c.name.empty()) one["column"] = c.name;
    if (c.n > 0) {
      one["min"] = c.least;
      one["max"] = c.most;
      one["mean"] = c.mean;
      one["std"] = c.deviation();
    }
    one["nan"] = c.missing;
    if (!c.counts.empty()) {
      Json& counts = one["counts"] = Json::object();
      for (const auto& [number, count] : c.counts) counts[c.label(number)] = count;
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::string FieldStatistics::text(int columns, bool utf8) const {
  Table wide("llrrrrr"), narrow("lrrrrr");
  std::string lists;
  for (const Column& c : columns_) {
    const std::string who = columns_.size() > 1 || !c.name.empty() ? name_ + "  " + c.name : name_;
    if (!c.counts.empty()) {
      lists += wrapped("  " + who + "  " + c.counts_text(), columns, utf8) + "\n";
      continue;
    }
    if (wide.empty()) {
      wide.row({name_, "column", "min", "max", "mean", "std", "missing"});
      narrow.row({"", "min", "max", "mean", "std", "missing"});
    }
    std::vector<std::string> figures(4);
    if (c.n > 0)
      figures = {number_text(c.least), number_text(c.most), number_text(c.mean),
                 number_text(c.deviation())};
    figures.push_back(std::to_string(c.missing));
    std::vector<std::string> row = {"", c.name.empty() ? "all" : c.name};
    row.insert(row.end(), figures.begin(), figures.end());
    wide.row(row);
    figures.insert(figures.begin(), who);
    narrow.row(figures);
  }
  if (wide.empty()) return lists;
  const std::string table = wide.text("  ");
  return (fits(table, columns) ? table : narrow.fitted("  ", columns, utf8)) + lists;
}

}  // namespace plait::cli
