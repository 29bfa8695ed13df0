// The modules of a family, as adapters name them, and the parameters that each holds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plugins/formats/hf/model.hpp"

namespace plait::hf {

// A parameter, and its outputs among those of the module.
struct ModulePart {
  std::string parameter;  // "h0.attn.q.weight"
  int64_t row = 0, n_rows = 0;
};

// A product (out, in), or a table of `out` rows. Some hold several parameters: GPT-2's c_attn.
struct Module {
  int64_t out = 0, in = 0;
  bool table = false;
  bool in_out = false;  // the library stores (in, out), as GPT-2's Conv1D
  std::vector<ModulePart> parts;
  std::string slice_of;  // of one expert: the parameter of all; `parts` is empty then
};

// By path: "model.layers.0.self_attn.q_proj".
using Modules = std::map<std::string, Module, std::less<>>;
Modules modules_of(const Model& model);

// A parameter in a tensor of the library: rows of it, and PLAIT_PLACE_*.
struct BasePart {
  std::string parameter;
  int64_t row = 0, n_rows = 0;  // n_rows 0: all
  uint32_t flags = 0;
};
struct BaseTensor {
  std::vector<int64_t> shape;
  std::vector<BasePart> parts;
  std::string slice_of;  // as of a Module
};
// All tensors of a family by their names: "model.norm.weight".
using BaseTensors = std::map<std::string, BaseTensor, std::less<>>;
BaseTensors tensors_of(const Model& model);

// The shortest ends of paths that name all of `chosen` and none of the others: the library takes
// "q_proj" for every module whose path ends in ".q_proj".
std::vector<std::string> short_names(const Modules& all, const std::vector<std::string>& chosen);

}  // namespace plait::hf
