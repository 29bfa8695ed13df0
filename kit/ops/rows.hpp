// Ops that work row by row over the last axis: softmax, log_softmax and their gradients. R rows of
// C elements.
#pragma once

#include "kit/op_attrs.hpp"

namespace plait::kit {

// R rows of C elements: the last axis, and all before it.
struct Rows {
  int64_t rows = 0, cols = 0;
};
Rows rows_of(const plait_shape& s);

// Where an id lies in a part of a table that begins at row `first`; -1: before it. Any id.
inline int64_t local_row(int64_t id, int64_t first) { return id < first ? -1 : id - first; }

// One input, or two for the gradients; all operands have one shape and type.
Rows parse_rows(const plait_op_desc& d, uint32_t inputs);

}  // namespace plait::kit
