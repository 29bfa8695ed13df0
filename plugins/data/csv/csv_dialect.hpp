// What a CSV file does not say of itself: its separator, and whether its first line holds names.
// Pure functions of the text.
#pragma once

#include "plugins/data/csv/csv_file.hpp"

namespace plait::data::csv {

// The first of tab, ';', '|' and ',' that each of the first 20 lines has outside of quotes, as
// often as the others; ',' if there is none. A file of decimal commas is not separated by commas.
char separator_of(std::string_view text, char decimal);

// Whether the first line holds names: none of its cells is a number, or one of them is a text above
// a number, or they are 0, 1, 2, … as libraries number columns without names.
bool has_header(const support::SourceFile& source, std::string_view text, const Request& request);

// Blanks around a cell are no part of it.
std::string_view trimmed(std::string_view cell);
// The number that a cell is, blanks trimmed; false: it is none. Infinite
// if it is too large for 64 bits, 0 if it is too small for them.
bool is_number(std::string_view cell, char decimal, double& value);
bool is_missing(std::string_view cell, const Request& request);

}  // namespace plait::data::csv
