// The saved operands of products in the backward pass that are cheap to recompute: the input of a
// linear layer behind a norm, an activation or a gated product, or q and k behind rope, from values
// that the backward pass reads in any case.
#pragma once

#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// Runs behind rematerialize(), before recompute(), which takes the values that it returns, in
// program order. A value is among them if
// - ops with OpDef::cheap_to_recompute alone compute it from values that are kept or persistent,
// - the backward pass reads it in products alone, views left out, and
// - these take at least `flops` for each of its elements. A step does about three times as many
//   FLOPs with it, beside which the pass over memory that recomputing costs is small.
std::vector<ValueId> cheap_operands(const Graph& g, double flops);

}  // namespace plait::program
