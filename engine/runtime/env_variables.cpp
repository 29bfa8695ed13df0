#include "engine/runtime/env_variables.hpp"

#include <charconv>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::runtime {
namespace {

constexpr double kMaxSeconds =
    1e7;  // four months: a larger value is a mistake; the limit keeps clock arithmetic safe

// True if all of `text` was parsed as a number.
template <class Number>
bool read(const std::string& text, Number& to) {
  const char* end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data(), end, to);
  return fault == std::errc() && at == end;
}

}  // namespace

bool EnvVariables::has(const char* name) const {
  const char* value = get_(name);
  return value && *value;
}

std::string EnvVariables::text(const char* name) const {
  const char* value = get_(name);
  return value ? value : "";
}

void EnvVariables::refuse(const char* name, const std::string& expected) const {
  fail_config(std::string("[job] the environment variable ") + name + " is '" +
              printable(text(name)) + "', expected " + expected +
              "; correct it where the ranks are started, or unset it");
}

int64_t EnvVariables::integer(const char* name, int64_t least, int64_t most) const {
  int64_t value = 0;
  if (!read(text(name), value) || value < least || value > most)
    refuse(name, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

double EnvVariables::seconds(const char* name, double otherwise) const {
  if (!has(name)) return otherwise;
  double value = 0;
  if (!read(text(name), value) || !(value > 0 && value <= kMaxSeconds))
    refuse(name, "a number of seconds above 0");
  return value;
}

}  // namespace plait::runtime
