#include "engine/program/passes.hpp"

#include <algorithm>

#include "engine/program/op_def.hpp"

namespace plait::program {

namespace {

constexpr struct {
  uint32_t code;
  const char* name;
} kActivations[] = {
    {PLAIT_MAP_RELU, "relu"}, {PLAIT_MAP_TANH, "tanh"}, {PLAIT_MAP_SIGMOID, "sigmoid"}};

constexpr struct {
  uint32_t fold;
  const char* attribute;
} kFolds[] = {{kFoldBias, "bias"},
              {kFoldActivation, "activation"},
              {kFoldAccumulate, "accumulate"},
              {kFoldSquares, "squares"}};

bool has(const Op& op, const char* attribute) {
  const Attr* a = op.attrs.find(attribute);
  return a && (a->type != PLAIT_OPT_BOOL || a->i != 0);
}

bool takes(const Op& op, uint32_t fold) { return op.def && (op.def->folds & fold) != 0; }

// Whether the op contains a fold that `fold` cannot follow: only an activation may follow a bias.
bool has_folded(const Op& op, uint32_t fold) {
  return std::any_of(std::begin(kFolds), std::end(kFolds), [&](const auto& f) {
    return has(op, f.attribute) && !(f.fold == kFoldBias && fold == kFoldActivation);
  });
}

// The index of the op that computes `v`, if the op `reader` can be folded into it as `fold`: `v`
// has one reader and is not an output. -1: none.
int32_t foldable_into(const Graph& g, ValueId v, int32_t reader, uint32_t fold) {
  const Value& value = g.value(v);
  if (value.producer < 0 || g.is_output(v) || value.alias_of) return -1;
  const Op& op = g.ops()[static_cast<size_t>(value.producer)];
  if (!takes(op, fold) || has_folded(op, fold)) return -1;
  return g.readers(v) == std::vector<int32_t>{reader} ? value.producer : -1;
}

// Replaces the reader by the matmul, which then writes the reader's result. extra: another input;
// 0: none.
void replace_user(Graph& g, int32_t matmul, int32_t reader, ValueId extra, Attr folded) {
  Op moved = g.remove(static_cast<size_t>(matmul));
  if (extra) moved.in.push_back(extra);
  moved.attrs.set(std::move(folded));
  moved.out = g.ops()[static_cast<size_t>(reader)].out;
  g.replace(static_cast<size_t>(reader), std::move(moved));
}

bool fold_bias(Graph& g, int32_t i) {
  const Op& add = g.ops()[static_cast<size_t>(i)];
  for (size_t k = 0; k < 2; ++k) {
    const ValueId y = add.in[k], bias = add.in[1 - k];
    const int32_t matmul = foldable_into(g, y, i, kFoldBias);
    const plait_shape &sy = g.shape(y), &sb = g.shape(bias);
    if (matmul < 0 || sb.ndim != 1 || sb.dims[0] != sy.dims[sy.ndim - 1] ||
        !same(sy, g.shape(add.out[0])) || sb.dtype != sy.dtype)
      continue;
    replace_user(g, matmul, i, bias, attr("bias", true));
    return true;
  }
  return false;
}

void fold_activation(Graph& g, int32_t i) {
  const Op& map = g.ops()[static_cast<size_t>(i)];
  for (const auto& a : kActivations) {
    if (map.map.instrs[0].op != a.code) continue;
    const int32_t matmul = foldable_into(g, map.in[0], i, kFoldActivation);
    if (matmul < 0 || !same(g.shape(map.in[0]), g.shape(map.out[0]))) return;
    return replace_user(g, matmul, i, 0, attr("activation", std::string(a.name)));
  }
}

// The product that made v, of which nothing else reads the memory that v lies in; -1: none.
int32_t product_of(const Graph& g, ValueId v, int32_t reader) {
  const Value& value = g.value(v);
  if (value.producer < 0 || value.role != Role::kTransient ||
      g.readers(v) != std::vector<int32_t>{reader})
    return -1;
  const Op& op = g.ops()[static_cast<size_t>(value.producer)];
  return takes(op, kFoldAccumulate) && (!value.alias_of || has(op, "accumulate")) ? value.producer
                                                                                  : -1;
}

// a + matmul, where a is a product as well: the matmul adds to the memory of a. A chain of such
// sums, as of the chunks of a large product, needs memory for one. The same of scatter_add, which
// reads its rows alone: of two the later one adds, as that of an embedding behind its tied head.
bool fold_sum(Graph& g, int32_t i) {
  const Op& add = g.ops()[static_cast<size_t>(i)];
  const ValueId out = add.out[0];
  if (g.value(out).alias_of || add.in.size() != 2) return false;
  const size_t later = g.value(add.in[1]).producer > g.value(add.in[0]).producer ? 1 : 0;
  for (const size_t k : {1 - later, later}) {
    const ValueId a = add.in[k], y = add.in[1 - k];
    if (a == y || product_of(g, a, i) < 0 || !same(g.shape(a), g.shape(out)) ||
        !same(g.shape(y), g.shape(out)))
      continue;
    const int32_t matmul = foldable_into(g, y, i, kFoldAccumulate);
    if (matmul < 0) continue;
    replace_user(g, matmul, i, a, attr("accumulate", true));
    Value& sum = g.value(out);
    if (sum.role == Role::kPersistent) {  // all of the chain lies where its sum is wanted
      g.bind(a, sum.buffer);
      sum.role = Role::kTransient;
    }
    sum.alias_of = a;
    return true;
  }
  return false;
}

// The product writes what `assign` wrote, but stands where it stood: its operands are live no
// longer than before.
void take_place_of(Graph& g, int32_t product, Op by, int32_t add, int32_t assign) {
  g.remove(static_cast<size_t>(add));
  by.out = g.remove(static_cast<size_t>(assign)).out;
  g.replace(static_cast<size_t>(product), std::move(by));
}

// The sum of a chain, which lies in the memory of another value, is added to a target: its first
// product adds to the target, and so do all.
bool fold_chain(Graph& g, int32_t assign, int32_t add, ValueId sum, ValueId target) {
  ValueId first = sum;
  int32_t at = product_of(g, sum, add);
  while (at >= 0 && g.value(first).alias_of) {
    first = g.value(first).alias_of;
    at = product_of(g, first, g.readers(first)[0]);
  }
  if (at < 0 || g.value(target).producer >= at ||
      has_folded(g.ops()[static_cast<size_t>(at)], kFoldAccumulate) ||
      !same(g.shape(sum), g.shape(target)))
    return false;
  Op begin = g.ops()[static_cast<size_t>(at)];
  begin.in.push_back(target);
  begin.attrs.set(attr("accumulate", true));
  g.replace(static_cast<size_t>(at), std::move(begin));
  g.value(first).alias_of = target;
  g.value(g.ops()[static_cast<size_t>(assign)].out[0]).alias_of = g.value(sum).alias_of;
  const int32_t last = g.value(sum).producer;
  Op product = g.ops()[static_cast<size_t>(last)];
  take_place_of(g, last, std::move(product), add, assign);
  return true;
}

// target = target + matmul, written as assign(add(target, y)): the matmul accumulates in the memory
// of the target.
void fold_accumulate(Graph& g, int32_t i) {
  const Op& assign = g.ops()[static_cast<size_t>(i)];
  const ValueId target = g.value(assign.out[0]).alias_of, sum = assign.in[0];
  if (!target || g.value(sum).producer < 0 || g.readers(sum).size() != 1 ||
      g.readers(target).size() != 1)
    return;
  const int32_t at = g.value(sum).producer;
  const Op& add = g.ops()[static_cast<size_t>(at)];
  if (!add.def || !add.def->is_map || add.map.instrs.size() != 1 ||
      add.map.instrs[0].op != PLAIT_MAP_ADD)
    return;
  for (size_t k = 0; k < 2; ++k) {
    if (add.in[k] != target) continue;
    const ValueId y = add.in[1 - k];
    if (g.value(y).alias_of && fold_chain(g, i, at, y, target)) return;
    const int32_t matmul = foldable_into(g, y, at, kFoldAccumulate);
    if (matmul < 0 || !same(g.shape(y), g.shape(target)) || g.value(target).producer >= matmul)
      continue;
    Op sum_of = g.ops()[static_cast<size_t>(matmul)];
    sum_of.in.push_back(target);
    sum_of.attrs.set(attr("accumulate", true));
    take_place_of(g, matmul, std::move(sum_of), at, i);
    return;
  }
}

// The sum of squares of a product, for the norm of a gradient, is computed while its tiles are in
// registers.
void fold_squares(Graph& g, int32_t i, const HasKernel& has_kernel) {
  const Op& reduce = g.ops()[static_cast<size_t>(i)];
  const ValueId y = reduce.in[0], squares = reduce.out[0];
  if (!reduce.def->sums_squares(g, reduce) || g.value(y).producer < 0) return;
  const auto matmul = static_cast<size_t>(g.value(y).producer);
  Op folded = g.ops()[matmul];
  if (!takes(folded, kFoldSquares) || has_folded(folded, kFoldSquares)) return;
  folded.out.push_back(squares);
  folded.alias.clear();  // one for each result; eliminate_dead_ops() writes them
  folded.attrs.set(attr("squares", true));
  if (!has_kernel(g, folded)) return;
  g.remove(static_cast<size_t>(i));
  g.replace(matmul, std::move(folded));
}

}  // namespace

void fold_matmul(Graph& g, const HasKernel& has_kernel) {
  eliminate_dead_ops(g);  // their reads would forbid folds
  for (int32_t i = 0; i < static_cast<int32_t>(g.ops().size()); ++i) {
    const Op& op = g.ops()[static_cast<size_t>(i)];
    if (!op.def) continue;
    if (op.def->sums_squares) {
      fold_squares(g, i, has_kernel);
      continue;
    }
    if (!op.def->is_map || op.map.instrs.size() != 1) continue;
    const uint32_t code = op.map.instrs[0].op;
    if (code == PLAIT_MAP_ADD)
      (void)(fold_bias(g, i) || fold_sum(g, i));
    else if (code == PLAIT_MAP_COPY)
      fold_accumulate(g, i);
    else if (op.in.size() == 1)
      fold_activation(g, i);
  }
  eliminate_dead_ops(g);
}

void eliminate_dead_ops(Graph& g) {
  const auto& ops = g.ops();
  std::vector<size_t> live;  // from the back
  std::vector<char> needed(g.n_values(), 0);
  for (size_t i = ops.size(); i-- > 0;) {
    const Op& op = ops[i];
    const bool awaited = op.def && op.def->is_awaited && op.def->is_awaited(g, op);
    if (!awaited && std::none_of(op.out.begin(), op.out.end(),
                                 [&](ValueId v) { return needed[v] || g.is_output(v); }))
      continue;
    live.push_back(i);
    for (ValueId v : ops[i].in)  // and writers to the memory that it is a view of
      for (; v; v = g.value(v).alias_of) needed[v] = 1;
  }
  std::reverse(live.begin(), live.end());
  g.reorder(live);
  for (size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    std::vector<int32_t> alias;
    for (ValueId v : op.out) {
      const ValueId target = op.def->is_view ? 0 : g.value(v).alias_of;
      const auto at = std::find(op.in.begin(), op.in.end(), target);
      alias.push_back(target && at != op.in.end() ? static_cast<int32_t>(at - op.in.begin()) : -1);
    }
    g.set_alias(i, std::move(alias));
  }
}

}  // namespace plait::program
