#include "engine/program/evaluate_element.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/error.hpp"
#include "kit/half.hpp"
#include "kit/ops/map.hpp"

namespace plait::program {
namespace {

// A number as an element of that type holds it (plait/map.h).
double stored(uint32_t dtype, double v) {
  const auto narrow = static_cast<float>(v);
  if (dtype == PLAIT_F64) return v;
  if (dtype == PLAIT_F32) return narrow;
  if (dtype == PLAIT_BF16) return kit::from_bf16(kit::to_bf16(narrow));
  if (dtype == PLAIT_F16) return kit::from_f16(kit::to_f16(narrow));
  return dtype == PLAIT_BOOL ? v != 0 : std::trunc(v);
}

// The type of an op's arithmetic: f32, or f64 if any operand is f64.
uint32_t arithmetic(const Graph& g, const Op& op) {
  const auto is_wide = [&](ValueId v) { return g.shape(v).dtype == PLAIT_F64; };
  const bool wide = std::any_of(op.in.begin(), op.in.end(), is_wide) ||
                    std::any_of(op.out.begin(), op.out.end(), is_wide);
  return wide ? PLAIT_F64 : PLAIT_F32;
}

}  // namespace

std::vector<double> evaluate_element(const Graph& g, const std::map<ValueId, double>& inputs) {
  std::vector<double> values(g.n_values(), 0);
  for (const auto& [v, x] : inputs) values.at(v) = x;
  std::vector<double> registers;
  for (const Op& op : g.ops()) {
    if (!op.def) continue;  // removed
    if (op.map.outputs.empty()) fail_internal("[program] op '" + op.name + "' is not element-wise");
    const uint32_t type = arithmetic(g, op);
    registers.assign(op.in.size() + op.map.instrs.size(), 0);
    for (size_t i = 0; i < op.in.size(); ++i) registers[i] = stored(type, values[op.in[i]]);
    for (size_t i = 0; i < op.map.instrs.size(); ++i)
      registers[op.in.size() + i] =
          stored(type, kit::evaluate_map(op.map.instrs[i], registers.data()));
    for (size_t i = 0; i < op.out.size(); ++i)
      values[op.out[i]] = stored(g.shape(op.out[i]).dtype, registers[op.map.outputs[i]]);
  }
  return values;
}

}  // namespace plait::program
