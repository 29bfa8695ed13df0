// Copies one program into another.
#pragma once

#include <functional>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// Appends the ops of `from` to `to`, with their scopes and shared memory. outside(v): the value of
// `to` that stands for v, which no op of `from` makes; asked once for each that an op reads.
// Returns the value of `to` for each value of `from`; 0 where `from` neither makes nor reads it.
std::vector<ValueId> splice(Graph& to, const Graph& from,
                            const std::function<ValueId(ValueId v)>& outside);

}  // namespace plait::program
