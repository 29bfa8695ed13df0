// The vector-level form between an expression and machine code: straight-line SSA over values of
// one vector register, with the loop level at which each value is computed.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace plait::cpu::jit {

enum class Isa : uint8_t { kAvx2, kAvx512 };

// Where a value is computed: never (a literal), once per call, once per row, or for every vector of
// the row.
enum class Level : uint8_t { kLiteral, kCall, kRow, kBody };

enum class Vop : uint8_t {
  kLit,   // bits
  kLoad,  // imm: operand; its elements zero-extended to 32 bits, f16 converted
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,  // the machine's min: b when either is NaN or both are zeros
  kAnd,
  kOr,
  kXor,
  kSqrt,
  kFloor,
  kRound,  // round to nearest integer, ties to even
  kFma,
  kFnma,    // a*b + c, c - a*b
  kSelect,  // imm predicate holds between a and b ? c : d
  kGetExp,
  kGetMant,  // AVX-512: floor(log2|a|), mantissa of |a| in [3/4, 3/2), NaN for a < 0
  kScale,    // AVX-512: a * 2^b
  kIntAdd,
  kIntSub,
  kShiftLeft,
  kShiftRight,
  kShiftRightSigned,  // on 32-bit integers; shifts by imm
  kIntToFloat,
  kFloatToInt,
  kTruncToInt,
};

// Predicates, encoded as the vcmpps immediate; the quiet forms. kN…: "not …", true for NaN.
enum Pred : uint8_t {
  kEq = 0x00,
  kUnord = 0x03,
  kNeq = 0x04,
  kOrd = 0x07,
  kLt = 0x11,
  kLe = 0x12,
  kNlt = 0x15,
  kNle = 0x16,
  kNge = 0x19,
  kNgt = 0x1A,
  kGe = 0x1D,
  kGt = 0x1E,
};
Pred inverse(Pred p);  // of a<b: not a<b
Pred swapped(Pred p);  // of a<b: b>a

using Value = int32_t;  // index into Code::nodes
inline constexpr Value kNoValue = -1;

struct Node {
  Vop op = Vop::kLit;
  uint8_t imm = 0;
  Level level = Level::kLiteral;
  Value args[4] = {kNoValue, kNoValue, kNoValue, kNoValue};
  uint32_t bits = 0;
};
int arity(Vop op);
bool needs_avx512(Vop op);

struct Store {
  uint8_t operand;
  Value value;
};

// Nodes in topological order: arguments come first.
struct Code {
  Isa isa = Isa::kAvx512;
  std::vector<Node> nodes;
  std::vector<Store> stores;
};

// Appends nodes; a repeated request for the same node returns the same value.
class Builder {
 public:
  // load_levels[o]: how often operand o changes.
  Builder(Isa isa, std::span<const Level> load_levels) : load_levels_(load_levels) {
    code_.isa = isa;
  }

  Isa isa() const { return code_.isa; }
  const Node& node(Value v) const { return code_.nodes[v]; }

  Value lit(float f);
  Value bits(uint32_t b);
  Value load(uint8_t operand);
  Value op(Vop op, Value a, Value b = kNoValue, Value c = kNoValue);
  Value shift(Vop op, Value a, uint8_t by);
  Value select(Pred p, Value a, Value b, Value c, Value d);
  void store(uint8_t operand, Value v) { code_.stores.push_back({operand, v}); }

  Value add(Value a, Value b) { return op(Vop::kAdd, a, b); }
  Value sub(Value a, Value b) { return op(Vop::kSub, a, b); }
  Value mul(Value a, Value b) { return op(Vop::kMul, a, b); }
  Value div(Value a, Value b) { return op(Vop::kDiv, a, b); }
  Value fma(Value a, Value b, Value c) { return op(Vop::kFma, a, b, c); }
  Value fnma(Value a, Value b, Value c) { return op(Vop::kFnma, a, b, c); }
  Value abs(Value a) { return op(Vop::kAnd, a, bits(0x7fffffffu)); }
  Value sign_bit(Value a) { return op(Vop::kAnd, a, bits(0x80000000u)); }
  Value negate(Value a) { return op(Vop::kXor, a, bits(0x80000000u)); }
  // The limit, or x if x is NaN or within the limit.
  Value at_least(float limit, Value x) { return op(Vop::kMax, lit(limit), x); }
  Value at_most(float limit, Value x) { return op(Vop::kMin, lit(limit), x); }
  // sum of coefficients[k] * x^k
  Value poly(std::span<const float> coefficients, Value x);

  // The code without nodes that no store needs.
  Code finish() &&;

 private:
  Value append(const Node& node);

  Code code_;
  std::span<const Level> load_levels_;
  std::unordered_multimap<uint64_t, Value> known_;
};

}  // namespace plait::cpu::jit
