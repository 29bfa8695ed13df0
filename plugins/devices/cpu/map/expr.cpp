#include "plugins/devices/cpu/map/expr.hpp"

#include <plait/plugin.hpp>

#include <utility>

namespace plait::cpu {
namespace {

struct OpInfo {
  const char* name;
  int arity;
};

// In the order of the PLAIT_MAP_ numbers.
constexpr OpInfo kOps[kMapOps] = {
    {"const", 0}, {"copy", 1},   {"add", 2},   {"sub", 2},   {"mul", 2},   {"div", 2},
    {"max", 2},   {"min", 2},    {"pow", 2},   {"neg", 1},   {"abs", 1},   {"exp", 1},
    {"log", 1},   {"sqrt", 1},   {"rsqrt", 1}, {"recip", 1}, {"tanh", 1},  {"sigmoid", 1},
    {"erf", 1},   {"relu", 1},   {"floor", 1}, {"sign", 1},  {"lt", 2},    {"le", 2},
    {"eq", 2},    {"select", 3}, {"fma", 3},   {"expm1", 1}, {"log1p", 1}, {"is_finite", 1},
    {"and", 2},   {"or", 2},     {"not", 1},
};

void check_operands(const MapDesc& desc) {
  const plait_map& map = *desc.map;
  const std::pair<const char*, std::span<const MapTensor>> sides[] = {{"input", desc.inputs},
                                                                      {"output", desc.outputs}};
  if (desc.inputs.size() != map.n_inputs || desc.outputs.size() != map.n_outputs)
    fail_map(PLAIT_ERR_INVALID, "got " + std::to_string(desc.inputs.size()) + " inputs and " +
                                    std::to_string(desc.outputs.size()) +
                                    " outputs, the expression has " + std::to_string(map.n_inputs) +
                                    " and " + std::to_string(map.n_outputs));
  for (const auto& [side, tensors] : sides) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string who = std::string(side) + " " + std::to_string(i);
      if (!dtype_bytes(tensors[i].dtype))
        fail_map(PLAIT_ERR_INVALID, who + " has unknown dtype " + std::to_string(tensors[i].dtype));
      if (tensors[i].ndim < 0 || tensors[i].ndim > PLAIT_MAX_NDIM)
        fail_map(PLAIT_ERR_INVALID, who + " has ndim " + std::to_string(tensors[i].ndim) +
                                        ", expected 0 to " + std::to_string(PLAIT_MAX_NDIM));
    }
  }
}

void check_instrs(const plait_map& map) {
  for (uint32_t i = 0; i < map.n_instrs; ++i) {
    const plait_map_instr& in = map.instrs[i];
    const std::string who = "instruction " + std::to_string(i);
    if (in.op >= kMapOps)
      fail_map(PLAIT_ERR_INVALID, who + " has unknown op " + std::to_string(in.op));
    const uint32_t operands[3] = {in.a, in.b, in.c};
    for (int k = 0; k < kOps[in.op].arity; ++k)
      if (operands[k] >= map.n_inputs + i)
        fail_map(PLAIT_ERR_INVALID, who + " (" + kOps[in.op].name + ") reads register " +
                                        std::to_string(operands[k]) + ", only " +
                                        std::to_string(map.n_inputs + i) + " exist by then");
  }
  for (uint32_t o = 0; o < map.n_outputs; ++o)
    if (map.outputs[o] >= map.n_inputs + map.n_instrs)
      fail_map(PLAIT_ERR_INVALID, "output " + std::to_string(o) + " is register " +
                                      std::to_string(map.outputs[o]) + ", only " +
                                      std::to_string(map.n_inputs + map.n_instrs) + " exist");
}

// Turns `in` into something cheaper, or into COPY, where its constant exponent allows it exactly.
void simplify_pow(plait_map_instr& in, double exponent) {
  if (exponent == 1.0) {
    in.op = PLAIT_MAP_COPY;
  } else if (exponent == 2.0) {
    in.op = PLAIT_MAP_MUL;
    in.b = in.a;
  } else if (exponent == -1.0) {
    in.op = PLAIT_MAP_RECIP;
  }
}

}  // namespace

const char* map_op_name(uint32_t op) { return kOps[op].name; }
int map_op_arity(uint32_t op) { return kOps[op].arity; }

void fail_map(uint32_t code, const std::string& text) { plait::fail(code, "[cpu.map] " + text); }

Expr read_expr(const MapDesc& desc) {
  if (!desc.map) fail_map(PLAIT_ERR_INVALID, "the expression is null");
  const plait_map& map = *desc.map;
  if (map.n_outputs == 0) fail_map(PLAIT_ERR_INVALID, "the expression has no output");
  if ((map.n_instrs && !map.instrs) || !map.outputs)
    fail_map(PLAIT_ERR_INVALID, "the expression's instruction or output list is null");
  check_operands(desc);
  check_instrs(map);

  const uint32_t n_old = map.n_inputs + map.n_instrs;
  std::vector<plait_map_instr> instrs(map.instrs, map.instrs + map.n_instrs);
  std::vector<uint32_t> same_as(n_old);  // the register that holds the value once copies are gone
  for (uint32_t r = 0; r < n_old; ++r) {
    same_as[r] = r;
    if (r < map.n_inputs) continue;
    plait_map_instr& in = instrs[r - map.n_inputs];
    uint32_t* operands[3] = {&in.a, &in.b, &in.c};
    // NOLINTNEXTLINE(*.NullDereference): no arity is above 3.
    for (int k = 0; k < kOps[in.op].arity; ++k) *operands[k] = same_as[*operands[k]];
    if (in.op == PLAIT_MAP_POW && in.b >= map.n_inputs &&
        instrs[in.b - map.n_inputs].op == PLAIT_MAP_CONST)
      simplify_pow(in, instrs[in.b - map.n_inputs].value);
    if (in.op == PLAIT_MAP_COPY) same_as[r] = in.a;
  }

  std::vector<bool> live(n_old, false);
  for (uint32_t o = 0; o < map.n_outputs; ++o) live[same_as[map.outputs[o]]] = true;
  for (uint32_t r = n_old; r-- > map.n_inputs;) {
    const plait_map_instr& in = instrs[r - map.n_inputs];
    if (!live[r]) continue;
    for (const uint32_t a : Arguments(in)) live[a] = true;
  }

  Expr expr;
  expr.n_inputs = map.n_inputs;
  std::vector<uint32_t> renamed(n_old);
  for (uint32_t r = 0; r < n_old; ++r) {
    renamed[r] = r < map.n_inputs ? r : expr.n_registers();
    if (r < map.n_inputs || !live[r]) continue;
    plait_map_instr in = instrs[r - map.n_inputs];
    uint32_t* operands[3] = {&in.a, &in.b, &in.c};
    for (int k = 0; k < kOps[in.op].arity; ++k) *operands[k] = renamed[*operands[k]];
    expr.instrs.push_back(in);
  }
  for (uint32_t o = 0; o < map.n_outputs; ++o)
    expr.outputs.push_back(renamed[same_as[map.outputs[o]]]);
  return expr;
}

}  // namespace plait::cpu
