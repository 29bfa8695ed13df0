// The order of collectives: they start early and end late.
#pragma once

#include "engine/program/graph.hpp"

namespace plait::program {

// Moves the start of each collective to where its operand is complete.
void hoist_collectives(Graph& g);

}  // namespace plait::program
