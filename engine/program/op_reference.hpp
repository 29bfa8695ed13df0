// The reference of all ops, from their definitions.
#pragma once

#include <string>
#include <vector>

#include "engine/program/op_def.hpp"

namespace plait::program {

// A page in Markdown: one section for each op, sorted by name. abi/plait/OPS.md is this page of the
// core ops.
std::string op_page(const std::vector<const OpDef*>& ops);
// {"schema": 1, "ops": [{"name", "help", "signature", "dtypes", "gradient", "sharding", "core",
// "attributes": [..]}, ..]}
std::string op_json(const std::vector<const OpDef*>& ops);

}  // namespace plait::program
