#include "plugins/devices/cpu/map/jit/lower.hpp"

#include <limits>
#include <utility>

#include "plugins/devices/cpu/map/jit/math.hpp"

namespace plait::cpu::jit {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// --- Conversions ---

Value load_as_float(Builder& b, uint8_t operand, uint32_t dtype) {
  const Value raw = b.load(operand);
  switch (dtype) {
    case PLAIT_BF16:
      return b.shift(Vop::kShiftLeft, raw, 16);
    case PLAIT_I32:
    case PLAIT_U8:
      return b.op(Vop::kIntToFloat, raw);
    case PLAIT_BOOL:
      return b.select(kNeq, b.op(Vop::kIntToFloat, raw), b.lit(0.0f), b.lit(1.0f), b.lit(0.0f));
    default:
      return raw;  // f32, and f16, which the load itself converts
  }
}

Value bf16_bits(Builder& b, Value v) {
  const Value high = b.shift(Vop::kShiftRight, v, 16);
  const Value even = b.op(Vop::kAnd, high, b.bits(1));
  const Value up = b.op(Vop::kIntAdd, b.op(Vop::kIntAdd, v, b.bits(0x7fff)), even);
  const Value rounded = b.shift(Vop::kShiftRight, up, 16);
  const Value quiet = b.op(Vop::kOr, high, b.bits(0x40));
  return b.select(kUnord, v, v, quiet, rounded);
}

// Truncates toward zero, within [low, high]; NaN becomes 0.
Value integer_bits(Builder& b, Value v, float low, float high) {
  const Value number = b.select(kOrd, v, v, v, b.lit(0.0f));
  return b.op(Vop::kTruncToInt, b.at_least(low, b.at_most(high, number)));
}

Value store_form(Builder& b, Value v, uint32_t dtype) {
  switch (dtype) {
    case PLAIT_BF16:
      return bf16_bits(b, v);
    case PLAIT_I32:  // the largest f32 below 2^31
      return integer_bits(b, v, -0x1p31f, 2147483520.0f);
    case PLAIT_U8:
      return integer_bits(b, v, 0.0f, 255.0f);
    case PLAIT_BOOL:
      return b.select(kNeq, v, b.lit(0.0f), b.bits(1), b.bits(0));
    default:
      return v;
  }
}

// --- Operations ---

bool is_number(const Builder& b, Value v) {
  const Node& n = b.node(v);
  return n.op == Vop::kLit && (n.bits & 0x7fffffffu) <= 0x7f800000u;
}

// Max or Min that propagates NaN from either operand; the machine instruction propagates only b's.
Value extreme(Builder& b, Vop op, Value a, Value y) {
  if (is_number(b, a)) return b.op(op, a, y);
  if (is_number(b, y)) return b.op(op, y, a);
  return b.select(kUnord, a, a, a, b.op(op, a, y));
}

// cond != 0 ? yes : no; uses the comparison that produced `cond` directly, if there is one.
Value choose(Builder& b, Value cond, Value yes, Value no) {
  const Node n = b.node(cond);
  if (n.op == Vop::kSelect && n.args[2] == b.lit(1.0f) && n.args[3] == b.lit(0.0f))
    return b.select(static_cast<Pred>(n.imm), n.args[0], n.args[1], yes, no);
  return b.select(kNeq, cond, b.lit(0.0f), yes, no);
}

Value compare(Builder& b, Pred p, Value x, Value y) {
  return b.select(p, x, y, b.lit(1.0f), b.lit(0.0f));
}

Value sign(Builder& b, Value x) {
  const Value zero = b.lit(0.0f);
  const Value not_positive = b.select(kLt, x, zero, b.lit(-1.0f), x);
  return b.select(kGt, x, zero, b.lit(1.0f), not_positive);
}

Value arithmetic(Builder& b, const plait_map_instr& in, Value x, Value y, Value z) {
  const Value one = b.lit(1.0f), zero = b.lit(0.0f);
  switch (in.op) {
    case PLAIT_MAP_CONST:
      return b.lit(static_cast<float>(in.value));
    case PLAIT_MAP_ADD:
      return b.add(x, y);
    case PLAIT_MAP_SUB:
      return b.sub(x, y);
    case PLAIT_MAP_MUL:
      return b.mul(x, y);
    case PLAIT_MAP_DIV:
      return b.div(x, y);
    case PLAIT_MAP_MAX:
      return extreme(b, Vop::kMax, x, y);
    case PLAIT_MAP_MIN:
      return extreme(b, Vop::kMin, x, y);
    case PLAIT_MAP_NEG:
      return b.negate(x);
    case PLAIT_MAP_ABS:
      return b.abs(x);
    case PLAIT_MAP_SQRT:
      return b.op(Vop::kSqrt, x);
    case PLAIT_MAP_RSQRT:
      return b.div(one, b.op(Vop::kSqrt, x));
    case PLAIT_MAP_RECIP:
      return b.div(one, x);
    case PLAIT_MAP_RELU:
      return b.at_least(0.0f, x);
    case PLAIT_MAP_FLOOR:
      return b.op(Vop::kFloor, x);
    case PLAIT_MAP_SIGN:
      return sign(b, x);
    case PLAIT_MAP_LT:
      return compare(b, kLt, x, y);
    case PLAIT_MAP_LE:
      return compare(b, kLe, x, y);
    case PLAIT_MAP_EQ:
      return compare(b, kEq, x, y);
    case PLAIT_MAP_SELECT:
      return choose(b, x, y, z);
    case PLAIT_MAP_FMA:
      return b.fma(x, y, z);
    case PLAIT_MAP_IS_FINITE:
      return compare(b, kLt, b.abs(x), b.lit(kInf));
    case PLAIT_MAP_AND:
      return choose(b, x, choose(b, y, one, zero), zero);
    case PLAIT_MAP_OR:
      return choose(b, x, one, choose(b, y, one, zero));
    case PLAIT_MAP_NOT:
      return choose(b, x, zero, one);
    default:
      return kNoValue;
  }
}

Value function(Builder& b, const plait_map_instr& in, Value x, Value y) {
  switch (in.op) {
    case PLAIT_MAP_POW:
      return power(b, x, y);
    case PLAIT_MAP_EXP:
      return exponential(b, x);
    case PLAIT_MAP_LOG:
      return logarithm(b, x);
    case PLAIT_MAP_TANH:
      return hyperbolic_tangent(b, x);
    case PLAIT_MAP_SIGMOID:
      return sigmoid(b, x);
    case PLAIT_MAP_ERF:
      return error_function(b, x);
    case PLAIT_MAP_EXPM1:
      return expm1(b, x);
    case PLAIT_MAP_LOG1P:
      return log1p(b, x);
    default:
      fail_map(PLAIT_ERR_INTERNAL, "no code for op " + std::to_string(in.op));
  }
}

}  // namespace

Code lower(const Expr& expr, std::span<const uint32_t> dtypes, std::span<const Level> levels,
           Isa isa) {
  Builder b(isa, levels);
  std::vector<Value> registers(expr.n_registers(), kNoValue);
  const auto read =
      [&](uint32_t r) {  // loads an input at its first use, so that few occupy registers
        if (registers[r] == kNoValue)
          registers[r] = load_as_float(b, static_cast<uint8_t>(r), dtypes[r]);
        return registers[r];
      };
  for (size_t i = 0; i < expr.instrs.size(); ++i) {
    const plait_map_instr& in = expr.instrs[i];
    const int n = map_op_arity(in.op);
    const Value x = n > 0 ? read(in.a) : kNoValue;
    const Value y = n > 1 ? read(in.b) : kNoValue;
    const Value z = n > 2 ? read(in.c) : kNoValue;
    const Value simple = arithmetic(b, in, x, y, z);
    registers[expr.n_inputs + i] = simple != kNoValue ? simple : function(b, in, x, y);
  }
  for (size_t o = 0; o < expr.outputs.size(); ++o) {
    const uint8_t operand = static_cast<uint8_t>(expr.n_inputs + o);
    b.store(operand, store_form(b, read(expr.outputs[o]), dtypes[operand]));
  }
  return std::move(b).finish();
}

}  // namespace plait::cpu::jit
