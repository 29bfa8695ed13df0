#include "plugins/devices/cpu/map/jit/section.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace plait::cpu::jit {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

OperandLocation in_reg(int r) { return {OperandLocation::kRegister, static_cast<int16_t>(r)}; }

bool commutes(Vop op) {
  return op == Vop::kAdd || op == Vop::kMul || op == Vop::kAnd || op == Vop::kOr ||
         op == Vop::kXor || op == Vop::kIntAdd;
}

}  // namespace

OperandLocation Homes::outside(const Code& code, Value v) {
  if (held[v] >= 0) return in_reg(held[v]);
  if (code.nodes[v].level != Level::kLiteral) return {OperandLocation::kSlot, slot[v]};
  if (literal[v] < 0) {
    literal[v] = static_cast<int16_t>(literals.size());
    literals.push_back(code.nodes[v].bits);
  }
  return {OperandLocation::kLiteral, literal[v]};
}

SectionAllocator::SectionAllocator(const Code& code, Level level, int registers, Homes& homes)
    : code_(code), level_(level), homes_(homes) {
  const size_t n = code.nodes.size();
  uses_.resize(n);
  register_of_.assign(n, -1);
  spill_of_.assign(n, -1);
  value_in_.assign(registers, kFree);
  locked_.assign(registers, false);
}

// Nodes of this level in order. In the body also the stores, each as soon as its value exists and
// every input of the vector has been read: an output may alias an input.
void SectionAllocator::order_items() {
  Value last_load = 0;
  const Value n = static_cast<Value>(code_.nodes.size());
  for (Value v = 0; v < n; ++v)
    if (is_inside(v) && code_.nodes[v].op == Vop::kLoad) last_load = v;
  std::vector<bool> stored(code_.stores.size(), level_ != Level::kBody);
  for (Value v = 0; v < n; ++v) {
    if (is_inside(v)) items_.push_back({v, -1});
    for (size_t s = 0; s < stored.size(); ++s) {
      if (stored[s] || std::max(last_load, code_.stores[s].value) > v) continue;
      items_.push_back({kNoValue, static_cast<int>(s)});
      stored[s] = true;
    }
  }
}

void SectionAllocator::count_uses() {
  for (size_t at = 0; at < items_.size(); ++at) {
    const Item& item = items_[at];
    if (item.store >= 0) {
      uses_[code_.stores[item.store].value].push_back(static_cast<int>(at));
      continue;
    }
    const Node& n = code_.nodes[item.node];
    for (int k = 0; k < arity(n.op); ++k) uses_[n.args[k]].push_back(static_cast<int>(at));
  }
}

void SectionAllocator::run() {
  order_items();
  count_uses();
  for (size_t at = 0; at < items_.size(); ++at) {
    if (items_[at].store >= 0) {
      place_store(code_.stores[items_[at].store], static_cast<int>(at));
    } else {
      place_node(items_[at].node, static_cast<int>(at));
    }
  }
}

int SectionAllocator::next_use(Value v, int after) const {
  const auto it = std::upper_bound(uses_[v].begin(), uses_[v].end(), after);
  return it == uses_[v].end() ? kNever : *it;
}

bool SectionAllocator::is_zero(Value v) const {
  return code_.nodes[v].op == Vop::kLit && code_.nodes[v].bits == 0;
}

OperandLocation SectionAllocator::where(Value v) {
  if (!is_inside(v)) return homes_.outside(code_, v);
  if (register_of_[v] >= 0) return in_reg(register_of_[v]);
  return {OperandLocation::kSpill, static_cast<int16_t>(spill_of_[v])};
}

int SectionAllocator::take_register(int at) {
  const int n = static_cast<int>(value_in_.size());
  int best = -1, furthest = -1;
  for (int r = 0; r < n; ++r) {
    if (locked_[r]) continue;
    if (value_in_[r] == kFree) {
      most_in_use_ = std::max(most_in_use_, ++in_use_);
      return r;
    }
    const int use = next_use(value_in_[r], at);
    if (use > furthest) furthest = use, best = r;
  }
  const Value evicted = value_in_[best];
  if (spill_of_[evicted] < 0) {
    spill_of_[evicted] = n_spills_++;
    Step step;
    step.kind = Step::kSpill;
    step.to = static_cast<int16_t>(spill_of_[evicted]);
    step.from[0] = in_reg(best);
    steps_.push_back(step);
  }
  register_of_[evicted] = -1;
  value_in_[best] = kFree;
  return best;
}

OperandLocation SectionAllocator::in_register(Value v, int at) {
  const OperandLocation location = where(v);
  if (location.in_register()) {
    if (is_inside(v)) locked_[location.index] = true;
    return location;
  }
  const int r = take_register(at);
  Step step;
  step.kind = Step::kMove;
  step.to = static_cast<int16_t>(r);
  step.from[0] = is_zero(v) ? OperandLocation{OperandLocation::kZero, 0} : location;
  steps_.push_back(step);
  locked_[r] = true;
  value_in_[r] = v;
  if (is_inside(v)) {
    register_of_[v] = r;
  } else {
    loaned_.push_back(r);
  }
  return in_reg(r);
}

void SectionAllocator::drop(Value v) {
  const int r = register_of_[v];
  if (r < 0) return;
  register_of_[v] = -1;
  value_in_[r] = kFree;
  --in_use_;
}

// Frees the registers of arguments that are not needed after `at`, and unlocks all registers.
void SectionAllocator::release_dead(const Node& n, int at) {
  for (int k = 0; k < arity(n.op); ++k)
    if (is_inside(n.args[k]) && next_use(n.args[k], at) == kNever) drop(n.args[k]);
  for (int r : loaned_) {
    value_in_[r] = kFree;
    --in_use_;
  }
  loaned_.clear();
  std::fill(locked_.begin(), locked_.end(), false);
}

// Machine instructions accept memory only as their last operand; swaps operands where possible to
// match that.
void SectionAllocator::prefer_memory_last(Node& n) {
  const auto mem = [&](int k) { return where(n.args[k]).in_memory(); };
  if (commutes(n.op) && mem(0) && !mem(1)) std::swap(n.args[0], n.args[1]);
  if ((n.op == Vop::kFma || n.op == Vop::kFnma) && mem(0) && !mem(1))
    std::swap(n.args[0], n.args[1]);
  if (n.op != Vop::kSelect) return;
  if (mem(0) && !mem(1)) {
    std::swap(n.args[0], n.args[1]);
    n.imm = swapped(static_cast<Pred>(n.imm));
  }
  if (is_zero(n.args[2]) || (mem(3) && !mem(2) && !is_zero(n.args[3]))) {
    std::swap(n.args[2], n.args[3]);
    n.imm = inverse(static_cast<Pred>(n.imm));
  }
}

void SectionAllocator::place_node(Value v, int at) {
  Node n = code_.nodes[v];
  prefer_memory_last(n);
  const int count = arity(n.op);
  Step step;
  step.op = n.op;
  step.imm = n.imm;
  // Assigns values that are in registers first, so that fetching one argument can't evict another.
  for (int k = 0; k < count; ++k)
    if (is_inside(n.args[k]) && register_of_[n.args[k]] >= 0)
      locked_[register_of_[n.args[k]]] = true;
  bool memory_left = count > 1;  // whether another operand may stay in memory
  for (int k = count; k-- > 0;) {
    const Value arg = n.args[k];
    const bool zero_else = n.op == Vop::kSelect && k == 3 && is_zero(arg);
    bool may = memory_left;
    if (n.op == Vop::kSelect) may = k == 2 || k == 1;  // two instructions, one memory operand each
    if (k == 0) may = false;
    // A spilled value that is needed again soon is reloaded once, into a register.
    const OperandLocation location = where(arg);
    if (may && location.kind == OperandLocation::kSpill && next_use(arg, at) != kNever) may = false;
    if (zero_else) {
      step.from[k] = {OperandLocation::kZero, 0};
    } else if (may && location.in_memory()) {
      step.from[k] = location;
      memory_left = false;
    } else {
      step.from[k] = in_register(arg, at);
    }
  }
  release_dead(n, at);
  // A fused multiply-add overwrites an operand: reuse the register of one whose last use is here.
  int r = -1;
  for (int k = 0; k < count && r < 0; ++k)
    if (step.from[k].in_register() && step.from[k].index < static_cast<int>(value_in_.size()) &&
        value_in_[step.from[k].index] == kFree)
      r = step.from[k].index;
  if (r < 0) {
    for (int k = 0; k < count; ++k)
      if (step.from[k].in_register() && step.from[k].index < static_cast<int>(locked_.size()))
        locked_[step.from[k].index] = true;
    r = take_register(at);
    std::fill(locked_.begin(), locked_.end(), false);
  } else {
    most_in_use_ = std::max(most_in_use_, ++in_use_);
  }
  value_in_[r] = v;
  register_of_[v] = r;
  step.to = static_cast<int16_t>(r);
  steps_.push_back(step);
  if (homes_.slot[v] >= 0) {
    Step save;
    save.kind = Step::kSaveSlot;
    save.to = homes_.slot[v];
    save.from[0] = in_reg(r);
    steps_.push_back(save);
  }
  if (next_use(v, at) == kNever) drop(v);
}

void SectionAllocator::place_store(const Store& s, int at) {
  Step step;
  step.kind = Step::kStore;
  step.imm = s.operand;
  step.from[0] = in_register(s.value, at);
  steps_.push_back(step);
  Node reader;  // any operation with one argument
  reader.op = Vop::kSqrt;
  reader.args[0] = s.value;
  release_dead(reader, at);
}

}  // namespace plait::cpu::jit
