#include "plugins/devices/cpu/map/jit/lir.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace plait::cpu::jit {
namespace {

uint64_t hash_of(const Node& n) {
  uint64_t h = (static_cast<uint64_t>(n.op) << 40) ^ (static_cast<uint64_t>(n.imm) << 32) ^ n.bits;
  for (Value a : n.args) h = (h ^ static_cast<uint32_t>(a)) * 0x9e3779b97f4a7c15u + (h >> 29);
  return h;
}

bool same(const Node& x, const Node& y) {
  return x.op == y.op && x.imm == y.imm && x.bits == y.bits &&
         std::equal(std::begin(x.args), std::end(x.args), std::begin(y.args));
}

}  // namespace

Pred inverse(Pred p) {
  switch (p) {
    case kEq:
      return kNeq;
    case kNeq:
      return kEq;
    case kUnord:
      return kOrd;
    case kOrd:
      return kUnord;
    case kLt:
      return kNlt;
    case kNlt:
      return kLt;
    case kLe:
      return kNle;
    case kNle:
      return kLe;
    case kGe:
      return kNge;
    case kNge:
      return kGe;
    case kGt:
      return kNgt;
    case kNgt:
      return kGt;
  }
  return p;
}

Pred swapped(Pred p) {
  switch (p) {
    case kLt:
      return kGt;
    case kGt:
      return kLt;
    case kLe:
      return kGe;
    case kGe:
      return kLe;
    case kNlt:
      return kNgt;
    case kNgt:
      return kNlt;
    case kNle:
      return kNge;
    case kNge:
      return kNle;
    default:
      return p;
  }
}

bool needs_avx512(Vop op) { return op == Vop::kGetExp || op == Vop::kGetMant || op == Vop::kScale; }

int arity(Vop op) {
  switch (op) {
    case Vop::kLit:
    case Vop::kLoad:
      return 0;
    case Vop::kSqrt:
    case Vop::kFloor:
    case Vop::kRound:
    case Vop::kGetExp:
    case Vop::kGetMant:
    case Vop::kShiftLeft:
    case Vop::kShiftRight:
    case Vop::kShiftRightSigned:
    case Vop::kIntToFloat:
    case Vop::kFloatToInt:
    case Vop::kTruncToInt:
      return 1;
    case Vop::kFma:
    case Vop::kFnma:
      return 3;
    case Vop::kSelect:
      return 4;
    default:
      return 2;
  }
}

Value Builder::append(const Node& node) {
  const uint64_t hash = hash_of(node);
  for (auto [it, end] = known_.equal_range(hash); it != end; ++it)
    if (same(code_.nodes[it->second], node)) return it->second;
  const Value v = static_cast<Value>(code_.nodes.size());
  code_.nodes.push_back(node);
  known_.emplace(hash, v);
  return v;
}

Value Builder::lit(float f) { return bits(std::bit_cast<uint32_t>(f)); }

Value Builder::bits(uint32_t b) {
  Node n;
  n.bits = b;
  return append(n);
}

Value Builder::load(uint8_t operand) {
  Node n;
  n.op = Vop::kLoad;
  n.imm = operand;
  n.level = load_levels_[operand];
  return append(n);
}

Value Builder::op(Vop op, Value a, Value b, Value c) {
  Node n;
  n.op = op;
  const Value args[] = {a, b, c};
  n.level = Level::kCall;  // even if all arguments are literals: they are not folded
  for (int k = 0; k < arity(op); ++k) {
    n.args[k] = args[k];
    n.level = std::max(n.level, node(args[k]).level);
  }
  return append(n);
}

Value Builder::shift(Vop op, Value a, uint8_t by) {
  Node n;
  n.op = op;
  n.imm = by;
  n.level = std::max(Level::kCall, node(a).level);
  n.args[0] = a;
  return append(n);
}

Value Builder::select(Pred p, Value a, Value b, Value c, Value d) {
  if (c == d) return c;
  Node n;
  n.op = Vop::kSelect;
  n.imm = p;
  n.level = Level::kCall;
  const Value args[] = {a, b, c, d};
  for (int k = 0; k < 4; ++k) {
    n.args[k] = args[k];
    n.level = std::max(n.level, node(args[k]).level);
  }
  return append(n);
}

Value Builder::poly(std::span<const float> coefficients, Value x) {
  Value p = lit(coefficients.back());
  for (size_t k = coefficients.size() - 1; k-- > 0;) p = fma(p, x, lit(coefficients[k]));
  return p;
}

Code Builder::finish() && {
  std::vector<bool> live(code_.nodes.size(), false);
  for (const Store& s : code_.stores) live[s.value] = true;
  for (size_t v = code_.nodes.size(); v-- > 0;)
    for (int k = 0; live[v] && k < arity(code_.nodes[v].op); ++k)
      live[code_.nodes[v].args[k]] = true;

  Code out;
  out.isa = code_.isa;
  std::vector<Value> renamed(code_.nodes.size(), kNoValue);
  for (size_t v = 0; v < code_.nodes.size(); ++v) {
    if (!live[v]) continue;
    Node n = code_.nodes[v];
    for (int k = 0; k < arity(n.op); ++k) n.args[k] = renamed[n.args[k]];
    renamed[v] = static_cast<Value>(out.nodes.size());
    out.nodes.push_back(n);
  }
  for (const Store& s : code_.stores) out.stores.push_back({s.operand, renamed[s.value]});
  return out;
}

}  // namespace plait::cpu::jit
