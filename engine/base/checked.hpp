// Checked arithmetic on sizes: an overflow is an error.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>

#include "engine/base/error.hpp"

namespace plait {

template <class T>
concept CheckedInt = std::same_as<T, uint64_t> || std::same_as<T, int64_t>;

// a op b. If the result does not fit, throws `code` (PLAIT_ERR_INVALID for a caller's number,
// PLAIT_ERR_DATA for a number from a file) with `what` in the text: checked_mul(rows, columns,
// "elements of 'fc1.weight'").
template <CheckedInt T>
T checked_add(T a, T b, const std::string& what, uint32_t code = PLAIT_ERR_INVALID);
template <CheckedInt T>
T checked_sub(T a, T b, const std::string& what, uint32_t code = PLAIT_ERR_INVALID);
template <CheckedInt T>
T checked_mul(T a, T b, const std::string& what, uint32_t code = PLAIT_ERR_INVALID);

// Converts the number to another type; an error if it does not fit.
template <std::integral To, std::integral From>
To checked_cast(From value, const std::string& what, uint32_t code = PLAIT_ERR_INVALID);

// `value` rounded up to a multiple of `unit` (> 0).
uint64_t checked_round_up(uint64_t value, uint64_t unit, const std::string& what,
                          uint32_t code = PLAIT_ERR_INVALID);

[[noreturn]] void fail_overflow(const std::string& what, const std::string& sum, uint32_t code);

template <CheckedInt T>
T checked_add(T a, T b, const std::string& what, uint32_t code) {
  T result;
  if (__builtin_add_overflow(a, b, &result))
    fail_overflow(what, std::to_string(a) + " + " + std::to_string(b), code);
  return result;
}

template <CheckedInt T>
T checked_sub(T a, T b, const std::string& what, uint32_t code) {
  T result;
  if (__builtin_sub_overflow(a, b, &result))
    fail_overflow(what, std::to_string(a) + " - " + std::to_string(b), code);
  return result;
}

template <CheckedInt T>
T checked_mul(T a, T b, const std::string& what, uint32_t code) {
  T result;
  if (__builtin_mul_overflow(a, b, &result))
    fail_overflow(what, std::to_string(a) + " * " + std::to_string(b), code);
  return result;
}

template <std::integral To, std::integral From>
To checked_cast(From value, const std::string& what, uint32_t code) {
  if (!std::in_range<To>(value)) fail_overflow(what, std::to_string(value), code);
  return static_cast<To>(value);
}

}  // namespace plait
