// Ops that a library of the device may compute in place of Plait's kernels: with other roundings,
// so only where the experiment asks for it (precision.library_attention).
#pragma once

#include "engine/program/passes.hpp"

namespace plait::program {

// Whether the op has the attribute `library` by its definition.
bool may_use_library(const Op& op);
// Whether it is set.
bool uses_library(const Op& op);

// Sets it for every such op that a kernel of the device then takes. For a finished program, behind
// all folds.
void use_libraries(Graph& g, const HasKernel& has_kernel);

}  // namespace plait::program
