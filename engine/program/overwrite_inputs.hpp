// Results that take the memory of an operand which nothing reads any more.
#pragma once

#include <functional>

#include "engine/program/graph.hpp"

namespace plait::program {

// Where the definition of an op allows it (OpDef::overwrites), the operand is transient and the op
// is its last reader, the result gets the operand's memory. `runs`: whether a kernel takes an op
// as it is, with its Op::alias. The order of the ops must be final.
void overwrite_inputs(Graph& g, const std::function<bool(const Graph&, const Op&)>& runs);

}  // namespace plait::program
