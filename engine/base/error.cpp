#include "engine/base/error.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace plait {

std::string Error::full_text() const {
  std::string all = text_;
  for (const Error* e = cause_.get(); e; e = e->cause_.get()) all += "\n  because: " + e->text_;
  return all;
}

void fail(uint32_t code, std::string text) { throw Error(code, std::move(text)); }
void fail_invalid(std::string text) { fail(PLAIT_ERR_INVALID, std::move(text)); }
void fail_config(std::string text) { fail(PLAIT_ERR_CONFIG, std::move(text)); }
void fail_not_found(std::string text) { fail(PLAIT_ERR_NOT_FOUND, std::move(text)); }
void fail_data(std::string text) { fail(PLAIT_ERR_DATA, std::move(text)); }
void fail_internal(std::string text) { fail(PLAIT_ERR_INTERNAL, std::move(text)); }

void fail_io(std::string what, int error_number) {
  char buffer[128] = "";
  fail(PLAIT_ERR_IO, std::move(what) + ": " + strerror_r(error_number, buffer, sizeof buffer));
}

void rethrow_with(std::string text) {
  try {
    throw;
  } catch (const Error& e) {
    throw Error(e.code(), std::move(text), std::make_shared<const Error>(e));
  } catch (const std::bad_alloc&) {
    throw Error(PLAIT_ERR_MEMORY, std::move(text) + ": out of memory");
  } catch (const std::exception& e) {
    throw Error(PLAIT_ERR_INTERNAL, std::move(text),
                std::make_shared<const Error>(PLAIT_ERR_INTERNAL, std::string(e.what())));
  }
}

std::string without_part(const std::string& text) {
  const size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

std::string human_bytes(uint64_t bytes) {
  static const char* const kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

namespace {

// Names that differ in these alone are written by someone who knows them from elsewhere:
// "CrossEntropy" is cross_entropy.
std::string without_case(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (c != '_') plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return plain;
}

}  // namespace

unsigned edit_distance(std::string_view first, std::string_view second) {
  const std::string a = without_case(first), b = without_case(second);
  // Two rows of the Levenshtein table; names are short, so this is fast enough.
  std::vector<unsigned> previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = static_cast<unsigned>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<unsigned>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const unsigned replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u);
      current[j] = std::min({replace, previous[j] + 1, current[j - 1] + 1});
    }
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::string did_you_mean(const std::string& nearest) {
  return nearest.empty() ? std::string() : " (did you mean '" + nearest + "'?)";
}

}  // namespace plait
