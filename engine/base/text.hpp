// Helpers for strings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plait {

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string strf(const char* format, ...);

std::vector<std::string> split(std::string_view text,
                               char separator);  // "a||b" -> a, "", b; "" -> nothing
std::string_view trim(std::string_view text);    // removes blanks at both ends
bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);

// Matches the whole text; * is any run of characters, ? any single one.
bool glob_match(std::string_view pattern, std::string_view text);

// The shortest decimal that reads back as the same double, always with '.', 'e', "inf" or "nan":
// "0.1", "1.0", "1e-08".
std::string real_text(double value);
// Formats with a printf format for one double; values that are not finite as above, so "-nan" never
// appears.
std::string real_text(double value, const char* format);

// "a, b, c".
template <class Range>
std::string join(const Range& parts, std::string_view separator = ", ") {
  std::string all;
  bool first = true;
  for (const auto& part : parts) {
    if (!first) all += separator;
    all += part;
    first = false;
  }
  return all;
}

// The text in a form that is safe to print on a terminal: control characters become \xNN.
std::string printable(std::string_view text);

// "" for a name that a plugin may give to an item, a parameter or a state: letters, digits, '_',
// '-' and '.', at most 100; else what is wrong with it: "contains the character '/', ...".
std::string fault_of_name(std::string_view name);

}  // namespace plait
