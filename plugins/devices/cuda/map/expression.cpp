#include "plugins/devices/cuda/map/expression.hpp"

#include <cmath>
#include <cstdio>
#include <vector>

#include "kit/ops/map.hpp"

namespace plait::cuda::map {
namespace {

std::string reg(uint32_t r) { return "r" + std::to_string(r); }

// A constant of `real`, to the last bit.
std::string literal(double value, bool wide) {
  if (!wide) value = static_cast<double>(static_cast<float>(value));
  if (std::isnan(value)) return "not_a_number()";
  if (std::isinf(value)) return value > 0 ? "infinity()" : "-infinity()";
  char text[64];
  std::snprintf(text, sizeof text, wide ? "%a" : "%af", value);
  return text;
}

// The value of register r if it is a constant, else NaN.
double constant_of(const plait_map& m, uint32_t r) {
  if (r < m.n_inputs || m.instrs[r - m.n_inputs].op != PLAIT_MAP_CONST) return NAN;
  return m.instrs[r - m.n_inputs].value;
}

// A power with an exponent that needs no logarithm, as on the cpu; any other calls pow.
std::string power(const plait_map& m, const plait_map_instr& in) {
  const double exponent = constant_of(m, in.b);
  const std::string a = reg(in.a);
  if (exponent == 1) return a;
  if (exponent == 2) return a + " * " + a;
  if (exponent == -1) return "1 / " + a;
  return "power(" + a + ", " + reg(in.b) + ")";
}

// NaN passes MAX, MIN and RELU: none of the comparisons is true for it.
std::string formula(const plait_map& m, const plait_map_instr& in, bool wide) {
  const std::string a = reg(in.a), b = reg(in.b), c = reg(in.c);
  switch (in.op) {
    case PLAIT_MAP_CONST:
      return literal(in.value, wide);
    case PLAIT_MAP_COPY:
      return a;
    case PLAIT_MAP_ADD:
      return a + " + " + b;
    case PLAIT_MAP_SUB:
      return a + " - " + b;
    case PLAIT_MAP_MUL:
      return a + " * " + b;
    case PLAIT_MAP_DIV:
      return a + " / " + b;
    case PLAIT_MAP_MAX:
      return a + " >= " + b + " || " + a + " != " + a + " ? " + a + " : " + b;
    case PLAIT_MAP_MIN:
      return a + " <= " + b + " || " + a + " != " + a + " ? " + a + " : " + b;
    case PLAIT_MAP_POW:
      return power(m, in);
    case PLAIT_MAP_NEG:
      return "-" + a;
    case PLAIT_MAP_RECIP:
      return "1 / " + a;
    case PLAIT_MAP_RSQRT:
      return "1 / square_root(" + a + ")";
    case PLAIT_MAP_RELU:
      return a + " < 0 ? real(0) : " + a;
    case PLAIT_MAP_SIGN:
      return a + " > 0 ? real(1) : " + a + " < 0 ? real(-1) : " + a;
    case PLAIT_MAP_LT:
      return "truth(" + a + " < " + b + ")";
    case PLAIT_MAP_LE:
      return "truth(" + a + " <= " + b + ")";
    case PLAIT_MAP_EQ:
      return "truth(" + a + " == " + b + ")";
    case PLAIT_MAP_SELECT:
      return a + " != 0 ? " + b + " : " + c;
    case PLAIT_MAP_FMA:
      return "multiply_add(" + a + ", " + b + ", " + c + ")";
    case PLAIT_MAP_IS_FINITE:
      return "truth(magnitude(" + a + ") < infinity())";
    case PLAIT_MAP_AND:
      return "truth(" + a + " != 0 && " + b + " != 0)";
    case PLAIT_MAP_OR:
      return "truth(" + a + " != 0 || " + b + " != 0)";
    case PLAIT_MAP_NOT:
      return "truth(" + a + " == 0)";
    case PLAIT_MAP_ABS:
      return "magnitude(" + a + ")";
    case PLAIT_MAP_EXP:
      return "exponential(" + a + ")";
    case PLAIT_MAP_LOG:
      return "logarithm(" + a + ")";
    case PLAIT_MAP_SQRT:
      return "square_root(" + a + ")";
    case PLAIT_MAP_TANH:
      return "hyperbolic_tangent(" + a + ")";
    case PLAIT_MAP_SIGMOID:
      return "sigmoid(" + a + ")";
    case PLAIT_MAP_ERF:
      return "error_function(" + a + ")";
    case PLAIT_MAP_FLOOR:
      return "round_down(" + a + ")";
    case PLAIT_MAP_EXPM1:
      return "exponential_minus_1(" + a + ")";
    default:
      return "logarithm_plus_1(" + a + ")";  // LOG1P: kit::check_map() knows no other number
  }
}

}  // namespace

std::string statements(const plait_map& m, bool wide) {
  std::vector<bool> used(m.n_inputs + m.n_instrs);
  for (uint32_t i = 0; i < m.n_outputs; ++i) used[m.outputs[i]] = true;
  for (uint32_t i = m.n_instrs; i-- > 0;) {
    const plait_map_instr& in = m.instrs[i];
    const uint32_t reads[] = {in.a, in.b, in.c};
    const int arity = kit::map_arity(in.op);
    for (int k = 0; k < arity && used[m.n_inputs + i]; ++k) used[reads[k]] = true;
  }
  std::string text;
  for (uint32_t i = 0; i < m.n_instrs; ++i)
    if (used[m.n_inputs + i])
      text += "  const real " + reg(m.n_inputs + i) + " = " + formula(m, m.instrs[i], wide) + ";\n";
  for (uint32_t i = 0; i < m.n_outputs; ++i)
    text += "  y" + std::to_string(i) + " = " + reg(m.outputs[i]) + ";\n";
  return text;
}

}  // namespace plait::cuda::map
