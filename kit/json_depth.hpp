// How deeply lists and objects of a JSON text of others are nested. The library nlohmann/json reads
// any depth, but calls itself for each level to copy, compare and print a value: a file of a
// megabyte of brackets would exhaust the stack.
#pragma once

#include <cstddef>
#include <string_view>

namespace plait::kit {

inline constexpr size_t kMostJsonLevels = 100;

// The offset of the first bracket that is deeper than kMostJsonLevels; npos: there is none. Of a
// text that is no JSON it says something about its brackets.
size_t too_deep_in_json(std::string_view text);

}  // namespace plait::kit
