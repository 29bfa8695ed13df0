#include "engine/plan/halves.hpp"

#include <numeric>

#include "engine/plan/frozen_numbers.hpp"
#include "engine/program/op_def.hpp"
#include "kit/ops/halves.hpp"

namespace plait::plan {

using program::Graph;
using program::make_shape;
using program::Op;
using program::ValueId;

namespace {

static_assert(rest_entries(1) == kit::kLowBytes);

plait_shape with_type(plait_shape shape, uint32_t dtype) {
  shape.dtype = dtype;
  return shape;
}

}  // namespace

SplitValue halves_of(Graph& g, const Parameter& p, const plait_shape& shape) {
  return {g.persistent(p.name + ", low", with_type(shape, PLAIT_BF16), p.low),
          g.persistent(p.name + ", rest", kit::low_shape(shape), p.rest)};
}

namespace {

// Ops that are written here and take the place of others: where they stand in the program.
class Rewrite {
 public:
  explicit Rewrite(Graph& g) : g_(g), n_(g.ops().size()), before_(n_) {}
  // Op i reads `v`, which the halves make up.
  void read(size_t i, ValueId v, const SplitValue& halves) {
    const size_t first = g_.ops().size();
    g_.write_like(g_.ops()[i]);
    if (g_.ops()[i].def->precision == program::PrecisionClass::kTable && g_.ops()[i].in[0] == v)
      read_rows(i, halves);
    else
      read_all(i, v, halves);
    for (size_t op = first; op < g_.ops().size(); ++op) before_[i].push_back(op);
  }
  void finish() {
    if (g_.ops().size() == n_) return;
    std::vector<size_t> order;
    for (size_t i = 0; i < n_; ++i) {
      order.insert(order.end(), before_[i].begin(), before_[i].end());
      order.push_back(i);
    }
    g_.reorder(order);
  }

 private:
  Op join_of(const SplitValue& halves) {
    Op op = g_.context();
    op.name = "join_halves";
    op.def = g_.registry()->find("join_halves");
    op.in = {halves.high, halves.rest};
    return op;
  }
  // The same op takes the rows of each half; they are joined in its place.
  void read_rows(size_t i, const SplitValue& table) {
    const Op whole = g_.ops()[i];
    const ValueId rows = whole.out[0];
    const plait_shape& shape = g_.shape(rows);
    const auto of = [&](ValueId half, const plait_shape& out) {
      Op op = whole;
      op.in[0] = half;
      op.out.clear();
      return g_.append(std::move(op), {out})[0];
    };
    Op join = join_of(
        {of(table.high, with_type(shape, PLAIT_BF16)), of(table.rest, kit::low_shape(shape))});
    join.out = {rows};
    g_.replace(i, std::move(join));
  }
  void read_all(size_t i, ValueId v, const SplitValue& halves) {
    const ValueId joined = g_.append(join_of(halves), {g_.shape(v)})[0];
    for (size_t k = 0; k < g_.ops()[i].in.size(); ++k)
      if (g_.ops()[i].in[k] == v) g_.set_input(i, k, joined);
  }

  Graph& g_;
  size_t n_;                                 // ops of the program as it was
  std::vector<std::vector<size_t>> before_;  // by op: those that now stand in front of it
};

}  // namespace

SplitValue split_elements(Graph& g, const ParameterGroup& group, int64_t first, int64_t elements) {
  return {flat(g, group.name + ".low", group.low, first, elements),
          flat(g, group.name + ".rest", group.rest, rest_entries(first), rest_entries(elements))};
}

SplitValue part_of(Graph& g, const SplitValue& all, int64_t first, plait_shape shape) {
  return {
      g.view(all.high, program::bytes_of(first, PLAIT_BF16), with_type(shape, PLAIT_BF16)),
      g.view(all.rest, program::bytes_of(rest_entries(first), kRestType), kit::low_shape(shape))};
}

ValueId joined(Graph& g, const SplitValue& v) { return g.apply1("join_halves", {v.high, v.rest}); }

SplitValue assign_split(Graph& g, const SplitValue& target, ValueId v) {
  std::vector<ValueId> halves = g.apply("split_halves", {v});
  // apply() gives the op that has split the value for another parameter.
  if (g.value(halves[0]).alias_of) {
    Op again = g.ops()[static_cast<size_t>(g.value(halves[0]).producer)];
    again.out.clear();
    halves = g.append(std::move(again), {g.shape(halves[0]), g.shape(halves[1])});
  }
  g.value(halves[0]).alias_of = target.high;
  g.value(halves[1]).alias_of = target.rest;
  return {halves[0], halves[1]};
}

ValueId read_whole(Graph& g, const Plan& plan, const Parameter& p, const plait_shape& shape) {
  if (p.is_quantized()) {
    const ValueId weight = dequantized(g, plan, p, numbers_of(g, plan, p));
    return program::reshaped(g, weight, program::dims_of(shape));
  }
  if (!p.is_split()) return g.persistent(p.name, shape, p.value);
  return joined(g, halves_of(g, p, shape));
}

void read_halves(TracedStep& w) {
  Graph& g = *w.graph;
  Rewrite rewrite(g);
  for (const ParameterUse& use : w.parameter_uses) {
    if (!use.parameter->is_split() || g.readers(use.value).empty()) continue;
    const SplitValue halves = halves_of(g, *use.parameter, g.shape(use.value));
    for (const int32_t r : std::vector<int32_t>(g.readers(use.value)))
      rewrite.read(static_cast<size_t>(r), use.value, halves);
  }
  rewrite.finish();
}

}  // namespace plait::plan
