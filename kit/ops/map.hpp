// Element-wise expressions: see plait/map.h.
#pragma once

#include "kit/op_attrs.hpp"

namespace plait::kit {

// Operands of an instruction: 0 to 3.
int map_arity(uint32_t op);
// Checks the expression and that the inputs broadcast to the outputs' common dims.
void check_map(const plait_op_desc& d);
// What an instruction that check_map() accepts makes of the registers r, in double.
double evaluate_map(const plait_map_instr& in, const double* r);

}  // namespace plait::kit
