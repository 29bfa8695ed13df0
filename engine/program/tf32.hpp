// Products of f32 whose operands are rounded to TF32 as they are read: 10 bits of fraction, so that
// tensor cores multiply them. Sums and results stay f32.
#pragma once

#include "engine/program/passes.hpp"

namespace plait::program {

// Whether the op is a product that may be computed so: of a definition with the attribute `tf32`,
// on operands of f32.
bool may_use_tf32(const Graph& g, const Op& op);
// Whether it is.
bool uses_tf32(const Op& op);

// Lets every such product that the device has a kernel for be computed so. For a finished program,
// behind all folds.
void use_tf32(Graph& g, const HasKernel& has_kernel);

}  // namespace plait::program
