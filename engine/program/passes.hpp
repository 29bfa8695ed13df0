// Rewrites of a finished program. Order: fold_matmul, fuse_maps, hoist_collectives (each leaves a
// valid program behind).
#pragma once

#include <functional>

#include "engine/program/graph.hpp"

namespace plait::program {

// Whether the device has a kernel for an op.
using HasKernel = std::function<bool(const Graph&, const Op&)>;

// Folds a bias, an activation whose operand nobody else reads, and an accumulation into the matmul
// before it, and, where the device can, a sum of squares of its result.
void fold_matmul(Graph& g, const HasKernel& has_kernel);

// Joins element-wise ops of one shape into one `map`, and scalar arithmetic into whoever reads it.
void fuse_maps(Graph& g);

// Lets collectives start as soon as what they send is there.
void hoist_collectives(Graph& g);

// Drops ops whose results nobody reads; sets Op::alias of in-place results.
void eliminate_dead_ops(Graph& g);

}  // namespace plait::program
