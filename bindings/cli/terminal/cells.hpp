// Text from anywhere in the columns of a terminal, and in markup.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plait::cli {

enum class Cut { kEnd, kBegin };  // where text that is too long loses letters

// The text in at most `columns` columns: without control characters, with a mark where it was cut.
// What the terminal's letters lack is '?'.
std::string cell(std::string_view text, int columns, bool utf8, Cut cut = Cut::kEnd);
// The same, filled with blanks.
std::string padded(std::string_view text, int columns, bool utf8, bool right = false,
                   Cut cut = Cut::kEnd);
// Columns that text without control characters takes; wide letters take two.
int columns_of(std::string_view text, bool utf8);

// Lines of at most so many columns, broken at blanks; those that continue one are indented by two
// more than it. Styles (ESC [ .. m) take no column. A longer word stays whole. 0: as it is.
std::string wrapped(std::string_view text, int columns, bool utf8);

// Decodes one code point of UTF-8 at `at` and moves behind it; -1 for what is none, byte by byte.
int32_t decode_utf8(std::string_view text, size_t& at);
// Of ASCII or of C1, which a terminal would obey.
bool is_control(int32_t code);

// For the text and the quoted attributes of HTML and XML. What is not UTF-8, or is a character that
// XML forbids, becomes U+FFFD; control characters become blanks.
std::string markup(std::string_view text);

}  // namespace plait::cli
