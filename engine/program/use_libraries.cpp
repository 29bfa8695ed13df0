#include "engine/program/use_libraries.hpp"

#include <algorithm>
#include <string_view>

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

constexpr const char* kLibrary = "library";

}  // namespace

bool may_use_library(const Op& op) {
  if (!op.def) return false;
  const auto& attrs = op.def->rewrite_attrs;
  return std::any_of(attrs.begin(), attrs.end(), [](const plait_option& declared) {
    return std::string_view(declared.name) == kLibrary;
  });
}

bool uses_library(const Op& op) {
  return may_use_library(op) && op.attrs.integer(kLibrary, 0) != 0;
}

void use_libraries(Graph& g, const HasKernel& has_kernel) {
  for (size_t i = 0; i < g.ops().size(); ++i) {
    if (!may_use_library(g.ops()[i])) continue;
    Op given = g.ops()[i];
    given.attrs.set(attr(kLibrary, true));
    if (has_kernel(g, given)) g.set_attr(i, attr(kLibrary, true));
  }
}

}  // namespace plait::program
