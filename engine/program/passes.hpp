// Rewrites of a finished program, in this order: fold_matmul, fuse_maps, hoist_collectives. The
// program is valid after each of them.
#pragma once

#include <functional>

#include "engine/program/fuse.hpp"
#include "engine/program/graph.hpp"
#include "engine/program/hoist.hpp"

namespace plait::program {

// Whether the device has a kernel for an op.
using HasKernel = std::function<bool(const Graph&, const Op&)>;

// Folds a bias, an activation whose operand has no other reader, and an accumulation, onto a target
// or onto another product, into the matmul before it; also a sum of squares of its result, if the
// device has a kernel for that.
void fold_matmul(Graph& g, const HasKernel& has_kernel);

// Removes ops whose results have no reader; sets Op::alias of in-place results.
void eliminate_dead_ops(Graph& g);

}  // namespace plait::program
