#include "engine/program/passes.hpp"

#include <algorithm>

#include "engine/program/rule.hpp"

namespace plait::program {

UseLists::UseLists(const Graph& g) : g_(g), readers_(g.n_values()) {
  for (size_t i = 0; i < g.ops().size(); ++i)
    for (ValueId v : g.ops()[i].in)
      if (readers_[v].empty() || readers_[v].back() != static_cast<int32_t>(i))
        readers_[v].push_back(static_cast<int32_t>(i));
}

bool UseLists::is_output(ValueId v) const {
  return g_.value(v).producer >= 0 && g_.value(g_.storage_of(v)).role == Role::kPersistent;
}

namespace {

constexpr struct {
  uint32_t code;
  const char* name;
} kActivations[] = {
    {PLAIT_MAP_RELU, "relu"}, {PLAIT_MAP_TANH, "tanh"}, {PLAIT_MAP_SIGMOID, "sigmoid"}};

// The matmul that makes `v`, if folding into op `reader` loses nothing: plain, read once, and not an output.
Op* foldable_matmul(Graph& g, const UseLists& uses, ValueId v, int32_t reader) {
  const Value& value = g.value(v);
  if (value.producer < 0 || uses.is_output(v) || value.alias_of) return nullptr;
  Op& op = g.ops()[static_cast<size_t>(value.producer)];
  if (op.name != "matmul" || op.attrs.find("activation") || op.attrs.find("accumulate") ||
      op.attrs.find("squares"))
    return nullptr;
  return uses.readers(v) == std::vector<int32_t>{reader} ? &op : nullptr;
}

// Moves the matmul to the place of its reader and lets it write the reader's result.
void replace_user(Graph& g, Op& matmul, Op& reader) {
  Op moved = std::move(matmul);
  const std::vector<ValueId> out = reader.out;
  matmul = Op{};
  reader = std::move(moved);
  reader.out = out;
  (void)g;
}

bool fold_bias(Graph& g, const UseLists& uses, int32_t i) {
  Op& add = g.ops()[static_cast<size_t>(i)];
  for (size_t k = 0; k < 2; ++k) {
    const ValueId y = add.in[k], bias = add.in[1 - k];
    Op* matmul = foldable_matmul(g, uses, y, i);
    const plait_shape &sy = g.shape(y), &sb = g.shape(bias);
    if (!matmul || matmul->attrs.find("bias") || sb.ndim != 1 ||
        sb.dims[0] != sy.dims[sy.ndim - 1] || !same(sy, g.shape(add.out[0])) ||
        sb.dtype != sy.dtype)
      continue;
    matmul->in.push_back(bias);
    matmul->attrs.set(attr("bias", true));
    replace_user(g, *matmul, add);
    g.value(g.ops()[static_cast<size_t>(i)].out[0]).producer = i;
    return true;
  }
  return false;
}

bool fold_activation(Graph& g, const UseLists& uses, int32_t i) {
  Op& map = g.ops()[static_cast<size_t>(i)];
  for (const auto& a : kActivations) {
    if (map.map.instrs[0].op != a.code) continue;
    Op* matmul = foldable_matmul(g, uses, map.in[0], i);
    if (!matmul || !same(g.shape(map.in[0]), g.shape(map.out[0]))) return false;
    matmul->attrs.set(attr("activation", std::string(a.name)));
    replace_user(g, *matmul, map);
    return true;
  }
  return false;
}

// target = target + matmul, written as assign(add(target, y)): the matmul adds into the target's memory.
bool fold_accumulate(Graph& g, const UseLists& uses, int32_t i) {
  Op& assign = g.ops()[static_cast<size_t>(i)];
  const ValueId target = g.value(assign.out[0]).alias_of, sum = assign.in[0];
  if (!target || g.value(sum).producer < 0 || uses.readers(sum).size() != 1) return false;
  const int32_t at = g.value(sum).producer;
  Op& add = g.ops()[static_cast<size_t>(at)];
  if (add.name != "map" || add.map.instrs.size() != 1 || add.map.instrs[0].op != PLAIT_MAP_ADD)
    return false;
  for (size_t k = 0; k < 2; ++k) {
    if (add.in[k] != target) continue;
    Op* matmul = foldable_matmul(g, uses, add.in[1 - k], at);
    if (!matmul || matmul->attrs.find("bias") || !same(g.shape(add.in[1 - k]), g.shape(target)))
      continue;
    matmul->in.push_back(target);
    matmul->attrs.set(attr("accumulate", true));
    replace_user(g, *matmul, assign);
    g.ops()[static_cast<size_t>(at)] = Op{};
    return true;
  }
  return false;
}

}  // namespace

namespace {

// A product's sum of squares, as the norm of a gradient wants it, is taken while its tiles are in registers.
bool fold_squares(Graph& g, int32_t i, const HasKernel& has_kernel) {
  Op& reduce = g.ops()[static_cast<size_t>(i)];
  const ValueId y = reduce.in[0];
  if (reduce.attrs.text("kind", "sum") != "sum_squares" || elements(g.shape(reduce.out[0])) != 1 ||
      g.value(y).producer < 0)
    return false;
  Op& matmul = g.ops()[static_cast<size_t>(g.value(y).producer)];
  for (const char* other : {"bias", "activation", "accumulate", "squares"})
    if (matmul.attrs.find(other)) return false;
  if (matmul.name != "matmul") return false;
  Op folded = matmul;
  folded.out.push_back(reduce.out[0]);
  folded.attrs.set(attr("squares", true));
  if (!has_kernel(g, folded)) return false;
  matmul = std::move(folded);
  g.value(reduce.out[0]).producer = g.value(y).producer;
  reduce = Op{};
  return true;
}

}  // namespace

void fold_matmul(Graph& g, const HasKernel& has_kernel) {
  for (int32_t i = 0; i < static_cast<int32_t>(g.ops().size()); ++i) {
    const Op& op = g.ops()[static_cast<size_t>(i)];
    if (op.name == "reduce") fold_squares(g, i, has_kernel);
    if (op.name != "map" || op.map.instrs.size() != 1) continue;
    const UseLists uses(g);
    const uint32_t code = op.map.instrs[0].op;
    if (code == PLAIT_MAP_ADD)
      fold_bias(g, uses, i);
    else if (code == PLAIT_MAP_COPY)
      fold_accumulate(g, uses, i);
    else if (op.in.size() == 1)
      fold_activation(g, uses, i);
  }
  eliminate_dead_ops(g);
}

namespace {

int64_t id_of(const Op& op) { return op.attrs.integer("id", -1); }

// Ranks whose programs differ agree on the order of what they start together, and tell messages apart by it.
bool is_ordered(const Op& op) {
  return op.rule->collective == CollectiveOp::kStart && op.attrs.integer("ordered", 0) != 0;
}

// What was sent goes when the next collective has started: so two of them are under way at most, and their memory is used again.
void hoist_waits(Graph& g) {
  auto& ops = g.ops();
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].rule->collective != CollectiveOp::kDone || ops[i].in.size() < 2) continue;
    size_t start = i, to = 0;
    while (start > 0 && (ops[start].rule->collective != CollectiveOp::kStart ||
                         id_of(ops[start]) != id_of(ops[i])))
      --start;
    for (size_t k = start + 1; k < i && to == 0; ++k)
      if (ops[k].rule->collective == CollectiveOp::kStart) to = k + 1;
    if (to == 0 || to >= i) continue;
    std::rotate(ops.begin() + static_cast<std::ptrdiff_t>(to),
                ops.begin() + static_cast<std::ptrdiff_t>(i),
                ops.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

}  // namespace

void hoist_collectives(Graph& g) {
  auto& ops = g.ops();
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!ops[i].rule || ops[i].rule->collective != CollectiveOp::kStart) continue;
    // Others before it may have moved: producers are looked for by value, from the back.
    size_t to = i;
    const auto makes_input = [&](const Op& op) {
      return std::any_of(op.out.begin(), op.out.end(), [&](ValueId v) {
        return std::find(ops[i].in.begin(), ops[i].in.end(), v) != ops[i].in.end();
      });
    };
    while (to > 0 && !makes_input(ops[to - 1]) && !(is_ordered(ops[i]) && is_ordered(ops[to - 1])))
      --to;
    // Nothing to wait for: what lies there was written from outside, and it may stay where it is.
    if (to == 0) continue;
    std::rotate(ops.begin() + static_cast<std::ptrdiff_t>(to),
                ops.begin() + static_cast<std::ptrdiff_t>(i),
                ops.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  hoist_waits(g);
  eliminate_dead_ops(g);
}

void eliminate_dead_ops(Graph& g) {
  auto& ops = g.ops();
  const UseLists uses(g);
  std::vector<char> live(ops.size(), 0);
  std::vector<char> needed(g.n_values(), 0);
  for (size_t i = ops.size(); i-- > 0;) {
    for (ValueId v : ops[i].out) live[i] = live[i] || needed[v] || uses.is_output(v);
    if (live[i])
      for (ValueId v : ops[i].in)  // and whoever wrote into the memory that it is a view of
        for (; v; v = g.value(v).alias_of) needed[v] = 1;
  }
  size_t n = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!live[i]) continue;
    if (n != i) ops[n] = std::move(ops[i]);
    Op& op = ops[n];
    op.alias.clear();
    for (ValueId v : op.out) {
      g.value(v).producer = static_cast<int32_t>(n);
      const ValueId target = op.rule->is_view ? 0 : g.value(v).alias_of;
      const auto at = std::find(op.in.begin(), op.in.end(), target);
      op.alias.push_back(target && at != op.in.end() ? static_cast<int32_t>(at - op.in.begin())
                                                     : -1);
    }
    ++n;
  }
  ops.resize(n);
}

}  // namespace plait::program
