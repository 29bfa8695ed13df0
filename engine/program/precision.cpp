#include "engine/program/precision.hpp"

#include <algorithm>
#include <map>

#include "engine/program/op_def.hpp"
#include "engine/program/op_desc.hpp"

namespace plait::program {
namespace {

bool is_16_bit(uint32_t dtype) { return is_float(dtype) && dtype_bytes(dtype) == 2; }

uint32_t wider(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0 || a == b) return std::max(a, b);
  if (is_16_bit(a) && is_16_bit(b)) return PLAIT_F32;  // bf16 and f16
  return dtype_bytes(a) > dtype_bytes(b) ? a : b;
}

class Lowering {
 public:
  Lowering(Graph& g, const PrecisionRules& rules)
      : g_(g), rules_(rules), traced_(g.n_values(), 0), neutral_(g.n_values(), 0) {
    for (ValueId v = 1; v < g.n_values(); ++v) traced_[v] = g.shape(v).dtype;
  }

  void run() {
    const size_t n = g_.ops().size();
    std::vector<size_t> order;
    for (size_t i = 0; i < n; ++i) {
      const size_t first = g_.ops().size();
      lower(i);
      for (size_t cast = first; cast < g_.ops().size(); ++cast) order.push_back(cast);
      order.push_back(i);
    }
    g_.reorder(order);
  }

 private:
  const Op& op(size_t i) const { return g_.ops()[i]; }
  uint32_t type(ValueId v) const { return g_.shape(v).dtype; }
  bool is_neutral(ValueId v) const { return v < neutral_.size() && neutral_[v]; }

  void lower(size_t i) {
    g_.scope = op(i).scope;
    g_.stage = op(i).stage;
    note_neutral(i);
    if (op(i).def->is_map) return type_map(i);
    const bool wide = op(i).def->stays_wide && op(i).def->stays_wide(op(i));
    switch (wide ? PrecisionClass::kWide : op(i).def->precision) {
      case PrecisionClass::kLow:
        cast_operands(i, rules_.low);
        break;
      case PrecisionClass::kTable:
        if (rules_.low_residual) cast_operands(i, rules_.low);
        break;
      case PrecisionClass::kWide:
        cast_operands(i, PLAIT_F32);
        break;
      case PrecisionClass::kFollow:
        cast_operands(i, widest_of(i));
        break;
    }
    infer_again(i);
  }

  // Numbers that depend on no parameter and no data: masks, tables of angles, constants.
  void note_neutral(size_t i) {
    const Op& o = op(i);
    const bool all = std::all_of(o.in.begin(), o.in.end(), [&](ValueId v) {
      return is_neutral(v) || (!o.def->is_map && !is_float(traced_[v]));
    });
    for (ValueId v : o.out) neutral_[v] = all;
  }

  // The operands that are of one type.
  template <class F>
  void each_typed(size_t i, const F& f) const {
    const size_t n = std::min(op(i).in.size(), op(i).def->typed_operands);
    for (size_t k = 0; k < n; ++k)
      if (is_float(type(op(i).in[k]))) f(k, op(i).in[k]);
  }
  uint32_t widest_of(size_t i) const {
    uint32_t widest = 0;
    each_typed(i, [&](size_t, ValueId v) { widest = wider(widest, type(v)); });
    return widest;
  }
  void cast_operands(size_t i, uint32_t to) {
    std::vector<std::pair<size_t, ValueId>> others;
    each_typed(i, [&](size_t k, ValueId v) {
      if (type(v) != to && (to != PLAIT_F32 || is_16_bit(type(v)))) others.emplace_back(k, v);
    });
    for (const auto& [k, v] : others) g_.set_input(i, k, cast(v, to));
  }
  // Or widened from there.
  bool is_from_outside(ValueId v) const {
    const int32_t i = g_.value(v).producer;
    if (i < 0 || !is_float_cast(g_, op(static_cast<size_t>(i))))
      return g_.value(v).role == Role::kPersistent;
    return g_.value(op(static_cast<size_t>(i)).in[0]).role == Role::kPersistent;
  }
  ValueId cast(ValueId v, uint32_t to) {
    if (!is_from_outside(v)) return g_.as_type(v, to);
    plait_shape shape = g_.shape(v);
    shape.dtype = to;
    return g_.append(g_.map_op({v}, {{PLAIT_MAP_COPY, 0, 0, 0, 0}}, {1}), {shape})[0];
  }

  void infer_again(size_t i) {
    const Op& o = op(i);
    if (!o.def->infer) return;
    std::vector<plait_shape> in;
    std::vector<char> weak;
    for (ValueId v : o.in) {
      in.push_back(g_.shape(v));
      weak.push_back(g_.value(v).weak);
    }
    const OpDesc desc(o.name, in, o.attrs);
    const auto out = o.def->infer({*o.def, in, o.attrs, *desc.get(), o.scope, weak, PLAIT_F32});
    for (size_t k = 0; k < out.size(); ++k) g_.value(o.out[k]).shape.dtype = out[k].dtype;
  }

  bool is_wide(size_t i) const {
    return std::any_of(rules_.wide_ops.begin(), rules_.wide_ops.end(),
                       [&](const auto& r) { return r.first <= i && i < r.second; });
  }
  void type_map(size_t i) {
    const Op& o = op(i);
    const ValueId y = o.out[0];
    if (o.in.empty() || traced_[y] != PLAIT_F32) return;
    const bool written_cast = o.map.instrs.size() == 1 && o.map.instrs[0].op == PLAIT_MAP_COPY &&
                              traced_[o.in[0]] != traced_[y];
    if (written_cast || is_wide(i)) return;
    const auto widest = [&](const auto& decides) {
      uint32_t all = 0;
      for (ValueId v : o.in)
        if (is_float(type(v)) && !is_neutral(v) && decides(v)) all = wider(all, type(v));
      return all;
    };
    uint32_t dtype = widest([&](ValueId v) { return same_dims(g_.shape(v), g_.shape(y)); });
    if (dtype == 0) dtype = widest([](ValueId) { return true; });
    if (dtype != 0) g_.value(y).shape.dtype = dtype;
  }

  Graph& g_;
  const PrecisionRules& rules_;
  std::vector<uint32_t> traced_;  // types as they were
  std::vector<char> neutral_;
};

// The casts of a program, while they go.
class CastFolder {
 public:
  CastFolder(Graph& g, const std::vector<ValueId*>& kept, CastsOfInputs inputs)
      : g_(g), kept_(kept), inputs_(inputs), needed_(g.n_values(), 0) {
    for (const ValueId* v : kept) needed_[*v] = 1;
    for (ValueId v = 1; v < g.n_values(); ++v)
      if (const Op* op = maker(v); op && g.value(v).alias_of && !op->def->is_view)
        written_over_[g.value(v).alias_of].push_back(v);
  }

  void run() {
    for (size_t i = 0; i < g_.ops().size(); ++i)
      if (is_free_cast(i)) fold(i);
  }

 private:
  // A cast whose result lies nowhere in particular.
  bool is_free_cast(size_t i) const {
    const Op& op = g_.ops()[i];
    return is_float_cast(g_, op) && !g_.is_output(op.out[0]) && !g_.value(op.out[0]).alias_of;
  }
  bool is_input_with_gradient(ValueId v) const {
    return g_.value(v).role == Role::kPersistent && g_.value(v).producer < 0 &&
           g_.value(v).requires_grad;
  }
  const Op* maker(ValueId v) const {
    const int32_t i = g_.value(v).producer;
    return i < 0 ? nullptr : &g_.ops()[static_cast<size_t>(i)];
  }

  void fold(size_t i) {
    const ValueId from = g_.ops()[i].in[0], y = g_.ops()[i].out[0];
    const Op* before = maker(from);
    if (!before) return;
    if (is_float_cast(g_, *before)) {
      const ValueId x = before->in[0];
      if (inputs_ == CastsOfInputs::kKeepForGradients && is_input_with_gradient(x)) return;
      const bool widened = dtype_bytes(g_.shape(x).dtype) < dtype_bytes(g_.shape(from).dtype);
      const bool may_skip = widened || (before->backward && g_.ops()[i].backward);
      if (written_over_.contains(y)) return;  // x may have other readers
      if (may_skip && g_.shape(x).dtype == g_.shape(y).dtype) return stand_for(y, x);
      if (widened) g_.set_input(i, 0, x);
      return;
    }
    write_as_read(from, g_.shape(y).dtype);
  }

  // All that reads the op's first result casts it to that type: the op writes it so.
  void write_as_read(ValueId v, uint32_t dtype) {
    const auto at = static_cast<size_t>(g_.value(v).producer);
    if (!g_.ops()[at].def->writes_any_float || g_.ops()[at].out[0] != v || needed_[v] ||
        g_.is_output(v) || g_.value(v).alias_of)
      return;
    std::vector<ValueId> casts;
    for (const int32_t r : g_.readers(v)) {
      const auto i = static_cast<size_t>(r);
      if (!is_free_cast(i) || g_.shape(g_.ops()[i].out[0]).dtype != dtype) return;
      casts.push_back(g_.ops()[i].out[0]);
      if (written_over_.contains(casts.back()) && g_.readers(v).size() > 1) return;
    }
    g_.set_attr(at, attr("dtype", static_cast<int64_t>(dtype)));
    g_.value(v).shape.dtype = dtype;
    for (ValueId y : casts) stand_for(y, v);
  }

  void stand_for(ValueId y, ValueId x) {
    for (const int32_t r : std::vector<int32_t>(g_.readers(y))) {
      const auto i = static_cast<size_t>(r);
      for (size_t k = 0; k < g_.ops()[i].in.size(); ++k)
        if (g_.ops()[i].in[k] == y) g_.set_input(i, k, x);
    }
    if (const auto over = written_over_.find(y); over != written_over_.end()) {
      for (ValueId v : over->second) g_.value(v).alias_of = x;
      written_over_[x] = std::move(over->second);
      written_over_.erase(y);
    }
    if (!needed_[y]) return;
    needed_[x] = 1;
    for (ValueId* v : kept_)
      if (*v == y) *v = x;
  }

  Graph& g_;
  const std::vector<ValueId*>& kept_;
  const CastsOfInputs inputs_;
  std::vector<char> needed_;
  std::map<ValueId, std::vector<ValueId>> written_over_;  // results in the memory of a value
};

// Op i reads the table as it is; a cast takes its place.
void widen_rows_of(Graph& g, size_t i) {
  const Op& op = g.ops()[i];
  const int32_t producer = g.value(op.in[0]).producer;
  if (producer < 0 || op.out.size() != 1 || !op.alias.empty()) return;
  const Op& cast = g.ops()[static_cast<size_t>(producer)];
  if (!is_float_cast(g, cast) || !is_16_bit(g.shape(cast.in[0]).dtype)) return;
  Op narrow = op;
  narrow.in[0] = cast.in[0];
  narrow.out.clear();
  const ValueId y = op.out[0];
  plait_shape shape = g.shape(y);
  shape.dtype = g.shape(cast.in[0]).dtype;
  g.write_like(op);
  const ValueId rows = g.append(std::move(narrow), {shape})[0];
  Op widen = g.map_op({rows}, {{PLAIT_MAP_COPY, 0, 0, 0, 0}}, {1});
  widen.scope = g.scope;
  widen.stage = g.stage;
  widen.backward = g.backward;
  widen.not_deferred = g.not_deferred;
  widen.out = {y};
  g.replace(i, std::move(widen));
}

}  // namespace

bool is_float_cast(const Graph& g, const Op& op) {
  return op.def && op.def->is_map && op.map.instrs.size() == 1 &&
         op.map.instrs[0].op == PLAIT_MAP_COPY && is_float(g.shape(op.in[0]).dtype) &&
         is_float(g.shape(op.out[0]).dtype) && g.shape(op.in[0]).dtype != g.shape(op.out[0]).dtype;
}

void lower_precision(Graph& g, const PrecisionRules& rules) { Lowering(g, rules).run(); }

void fold_casts(Graph& g, const std::vector<ValueId*>& kept, CastsOfInputs inputs) {
  CastFolder(g, kept, inputs).run();
}

void widen_rows(Graph& g) {
  const size_t n = g.ops().size();
  std::vector<size_t> order;
  for (size_t i = 0; i < n; ++i) {
    const size_t first = g.ops().size();
    if (const Op& op = g.ops()[i]; op.def && op.def->precision == PrecisionClass::kTable)
      widen_rows_of(g, i);
    for (size_t added = first; added < g.ops().size(); ++added) order.push_back(added);
    order.push_back(i);
  }
  if (order.size() > n) g.reorder(order);
}

}  // namespace plait::program
