// Numbers of the text form.
#pragma once

#include <cstdint>

#include "engine/program/text/lexer.hpp"

namespace plait::program::text_form {

// Without a sign. Errors: of the lexer.
double real_of(Lexer& lexer);  // 12, 0.5, 1e-08, inf, nan
uint64_t unsigned_of(Lexer& lexer, const std::string& expected);
// With a sign.
int64_t integer_of(Lexer& lexer, const std::string& expected);

}  // namespace plait::program::text_form
