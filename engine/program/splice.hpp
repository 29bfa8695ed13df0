// Copies one program into another.
#pragma once

#include <functional>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// Appends the ops of `from` to `to`, with their scopes and shared memory. outside(v): the value of
// `to` that stands for v, which no op of `from` makes; asked once for each that an op reads.
// Returns the values of `to` by those of `from`, 0 for what neither makes nor reads.
std::vector<ValueId> splice(Graph& to, const Graph& from,
                            const std::function<ValueId(ValueId v)>& outside);

}  // namespace plait::program
