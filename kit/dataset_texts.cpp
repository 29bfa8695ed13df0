#include "kit/dataset_texts.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace plait::kit {
namespace {

using Texts = std::vector<std::string>;

constexpr uint64_t kMostTexts = 1 << 20;    // of one column
constexpr uint64_t kMostColumns = 1 << 16;  // that have classes

Texts texts_of(const FieldTexts& field, uint32_t what) {
  Texts all;
  while (all.size() < kMostTexts) {
    const char* text = field.text_of(what, all.size());
    if (!text) break;
    all.emplace_back(text);
  }
  return all;
}

std::string shown(const Texts& texts, size_t i) {
  return i < texts.size() ? "'" + texts[i] + "'" : "missing";
}

size_t first_difference(const Texts& a, const Texts& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

std::string described(const std::string& what, size_t i, const Texts& mine, const Texts& its,
                      const FieldTexts& own, const FieldTexts& other) {
  return what + " " + std::to_string(i) + " is " + shown(mine, i) + " in " + own.who + " (of " +
         std::to_string(mine.size()) + ") and " + shown(its, i) + " in " + other.who + " (of " +
         std::to_string(its.size()) + ")";
}

std::string fault_of_classes(const plait_field& field, uint32_t k, const FieldTexts& own,
                             const FieldTexts& other) {
  const Texts mine = texts_of(own, PLAIT_TEXT_CLASS + k),
              its = texts_of(other, PLAIT_TEXT_CLASS + k);
  const size_t i = first_difference(mine, its);
  // Classes that one of them alone has, behind all others, change no number.
  if (i == std::min(mine.size(), its.size())) return "";
  const Texts columns = texts_of(own, PLAIT_TEXT_COLUMN);
  const bool named = field.shape.ndim > 0 && k < columns.size();
  return "field '" + std::string(field.name) + "': class" +
         described(named ? " of column '" + columns[k] + "'," : "", i, mine, its, own, other);
}

// The category of a column of 0 and 1, with the " = " before its text; "": it is none.
std::string_view category_of(const Texts& columns, size_t i) {
  if (i >= columns.size()) return "";
  const size_t at = columns[i].find(" = ");
  return at == std::string::npos ? "" : std::string_view(columns[i]).substr(0, at + 3);
}

// Whether a column of one dataset is elsewhere in the other.
bool is_elsewhere(const Texts& columns, size_t i, const Texts& among) {
  return i < columns.size() && std::find(among.begin(), among.end(), columns[i]) != among.end();
}

std::string fault_of_columns(const plait_field& field, const FieldTexts& own,
                             const FieldTexts& other) {
  const Texts mine = texts_of(own, PLAIT_TEXT_COLUMN), its = texts_of(other, PLAIT_TEXT_COLUMN);
  if (mine.empty() || its.empty() || mine == its) return "";
  const size_t i = first_difference(mine, its);
  const std::string_view a = category_of(mine, i), b = category_of(its, i);
  // Where the columns before are called alike, a category that is not is no other name for it.
  const bool category = a == b ? !a.empty() : i > 0;
  if (!category && !is_elsewhere(mine, i, its) && !is_elsewhere(its, i, mine)) return "";
  return "field '" + std::string(field.name) + "': column" +
         described("", i, mine, its, own, other);
}

}  // namespace

std::string contradiction(const plait_field& field, const FieldTexts& own,
                          const FieldTexts& other) {
  const uint64_t columns = field.shape.ndim == 1 ? static_cast<uint64_t>(field.shape.dims[0]) : 1;
  for (uint64_t k = 0; k < std::min(columns, kMostColumns); ++k)
    if (std::string fault = fault_of_classes(field, static_cast<uint32_t>(k), own, other);
        !fault.empty())
      return fault;
  return fault_of_columns(field, own, other);
}

}  // namespace plait::kit
