// Element-wise expressions (plait/map.h) as text.
//
//   t0 = x0 * 0.5; t0 + x1, exp(t0)
//
// x0, x1, .. are the operands; t0, t1, .. name a value that is read more than once, or computed
// earlier than where it is read; the last part lists the results. The instructions of an expression
// stand in its text from left to right, operands first, so the text keeps their order as well.
#pragma once

#include <string>

#include "engine/program/graph.hpp"
#include "engine/program/text/lexer.hpp"

namespace plait::program::text_form {

// Any expression, also one that kit::check_map() would refuse.
std::string expression_text(const MapExpr& map, size_t n_inputs);
// Reads up to the mark behind it. Errors: of the lexer.
MapExpr read_expression(Lexer& lexer, size_t n_inputs);

}  // namespace plait::program::text_form
