#include "engine/program/evaluate_element.hpp"

#include "engine/base/error.hpp"
#include "kit/ops/map.hpp"

namespace plait::program {

std::vector<double> evaluate_element(const Graph& g, const std::map<ValueId, double>& inputs) {
  std::vector<double> values(g.n_values(), 0);
  for (const auto& [v, x] : inputs) values.at(v) = x;
  std::vector<double> registers;
  for (const Op& op : g.ops()) {
    if (!op.def) continue;  // removed
    if (op.map.outputs.empty()) fail_internal("[program] op '" + op.name + "' is not element-wise");
    registers.assign(op.in.size() + op.map.instrs.size() + 1, 0);
    for (size_t i = 0; i < op.in.size(); ++i) registers[i] = values[op.in[i]];
    for (size_t i = 0; i < op.map.instrs.size(); ++i)
      registers[op.in.size() + i] = kit::evaluate_map(op.map.instrs[i], registers.data());
    for (size_t i = 0; i < op.out.size(); ++i) values[op.out[i]] = registers[op.map.outputs[i]];
  }
  return values;
}

}  // namespace plait::program
