// Labels below 0, which the loss cross_entropy ignores: files mark with -1 or -100 what is not to
// be learned. Another number below 0 may be a mistake, which no error would tell of.
#pragma once

#include <plait/base.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace plait::data {

// What is told of such labels; "": there are none, or all are -1 or -100.
// values: integers of type T, row by row, `each` of a sample.
template <class T>
std::string ignored_labels_text(std::span<const uint8_t> values, size_t each) {
  const size_t n = values.size() / sizeof(T);
  size_t below = 0, first = n;
  T found = 0;
  for (size_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, values.data() + i * sizeof value, sizeof value);
    if (value >= 0) continue;
    ++below;
    if (first == n && value != -1 && value != -100) first = i, found = value;
  }
  if (first == n) return "";
  return std::to_string(below) + " of " + std::to_string(n) +
         (below == 1 ? " integers is" : " integers are") + " below 0, such as " +
         std::to_string(found) + " in sample " + std::to_string(first / each) +
         "; the loss cross_entropy ignores labels below 0";
}

inline std::string ignored_labels_text(std::span<const uint8_t> values, uint32_t dtype,
                                       size_t each) {
  if (dtype == PLAIT_I32) return ignored_labels_text<int32_t>(values, each);
  if (dtype == PLAIT_I64) return ignored_labels_text<int64_t>(values, each);
  return "";
}

}  // namespace plait::data
