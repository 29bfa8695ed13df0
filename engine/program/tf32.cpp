#include "engine/program/tf32.hpp"

#include "engine/program/op_def.hpp"

namespace plait::program {

bool may_use_tf32(const Graph& g, const Op& op) {
  return op.def && op.def->takes_tf32 && g.shape(op.in[0]).dtype == PLAIT_F32 &&
         !(op.def->stays_wide && op.def->stays_wide(op));
}

bool uses_tf32(const Op& op) {
  return op.def && op.def->takes_tf32 && op.attrs.integer("tf32", 0) != 0;
}

void use_tf32(Graph& g, const HasKernel& has_kernel) {
  for (size_t i = 0; i < g.ops().size(); ++i) {
    if (!may_use_tf32(g, g.ops()[i])) continue;
    Op rounded = g.ops()[i];
    rounded.attrs.set(attr("tf32", true));
    if (has_kernel(g, rounded)) g.set_attr(i, attr("tf32", true));
  }
}

}  // namespace plait::program
