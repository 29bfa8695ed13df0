#include "kit/ops/map.hpp"

#include "kit/ops/map_element.hpp"

namespace plait::kit {

int map_arity(uint32_t op) {
  switch (op) {
    case PLAIT_MAP_CONST:
      return 0;
    case PLAIT_MAP_ADD:
    case PLAIT_MAP_SUB:
    case PLAIT_MAP_MUL:
    case PLAIT_MAP_DIV:
    case PLAIT_MAP_MAX:
    case PLAIT_MAP_MIN:
    case PLAIT_MAP_POW:
    case PLAIT_MAP_LT:
    case PLAIT_MAP_LE:
    case PLAIT_MAP_EQ:
    case PLAIT_MAP_AND:
    case PLAIT_MAP_OR:
      return 2;
    case PLAIT_MAP_SELECT:
    case PLAIT_MAP_FMA:
      return 3;
    default:
      return 1;
  }
}

void check_map(const plait_op_desc& d) {
  if (!d.map) throw Invalid("has no expression");
  need_operands(d, d.map->n_inputs, d.map->n_outputs);
  need(d.map->n_outputs >= 1, "has no output");
  const plait_shape& y = d.outputs[0];
  for (uint32_t i = 1; i < d.n_outputs; ++i)
    need(same_dims(d.outputs[i], y), "outputs differ: " + text(y) + " and " + text(d.outputs[i]));
  for (uint32_t i = 0; i < d.n_inputs; ++i) {
    const plait_shape& x = d.inputs[i];
    bool fits = x.ndim <= y.ndim;
    for (uint32_t j = 0; fits && j < x.ndim; ++j)
      fits = x.dims[j] == 1 || x.dims[j] == y.dims[y.ndim - x.ndim + j];
    need(fits, "input " + text(x) + " does not broadcast to " + text(y));
  }
  const plait_map& m = *d.map;
  for (uint32_t i = 0; i < m.n_instrs; ++i) {
    const plait_map_instr& in = m.instrs[i];
    need(in.op <= PLAIT_MAP_NOT, "unknown instruction " + std::to_string(in.op));
    const uint32_t limit = m.n_inputs + i;
    const int arity = map_arity(in.op);
    need((arity < 1 || in.a < limit) && (arity < 2 || in.b < limit) && (arity < 3 || in.c < limit),
         "instruction " + std::to_string(i) + " reads a later register");
  }
  for (uint32_t i = 0; i < m.n_outputs; ++i)
    need(m.outputs[i] < m.n_inputs + m.n_instrs,
         "output " + std::to_string(i) + " names no register");
}

double evaluate_map(const plait_map_instr& in, const double* r) {
  const int arity = map_arity(in.op);
  return map_element(in.op, in.value, arity > 0 ? r[in.a] : 0, arity > 1 ? r[in.b] : 0,
                     arity > 2 ? r[in.c] : 0);
}

}  // namespace plait::kit
