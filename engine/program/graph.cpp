#include "engine/program/graph.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/op_desc.hpp"
#include "engine/program/op_registry.hpp"
#include "kit/shape.hpp"

namespace plait::program {

ValueId Graph::persistent(std::string name, const plait_shape& shape, BufferRef buffer) {
  Value v;
  v.shape = shape;
  v.role = Role::kPersistent;
  v.buffer = buffer;
  v.name = std::move(name);
  return add_value(std::move(v));
}

ValueId Graph::add_value(Value value) {
  values_.push_back(std::move(value));
  readers_.emplace_back();
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Graph::constant(double v) {
  const std::string key = "constant|" + strf("%a|%d", v, stage);
  if (auto it = cse_table_.find(key); it != cse_table_.end()) return it->second[0];
  Op op = map_op({}, {{PLAIT_MAP_CONST, 0, 0, 0, v}}, {0});
  const ValueId made = (cse_table_[key] = add(std::move(op), {make_shape(float_type_, {})}))[0];
  values_[made].weak = true;
  return made;
}

namespace {

std::string where(const Graph& g, std::string_view op) {
  return "[" + g.scope + "] " + std::string(op) + ":";
}

}  // namespace

Op Graph::map_op(std::vector<ValueId> in, std::vector<plait_map_instr> instrs,
                 std::vector<uint32_t> outputs) const {
  Op op;
  op.def = registry_->find("map");
  op.name = op.def->name;
  op.in = std::move(in);
  op.map.instrs = std::move(instrs);
  op.map.outputs = std::move(outputs);
  return op;
}

std::vector<ValueId> Graph::apply(std::string_view name, std::vector<ValueId> in, Attrs attrs) {
  for (ValueId v : in)
    if (v == 0 || v >= values_.size())
      fail_invalid(where(*this, name) + " input " + std::to_string(v) +
                   " is no value of this program");
  const OpDef* def = registry_->find(name);
  Op op;
  op.def = def;
  op.name = def->name;
  op.in = std::move(in);
  op.attrs = checked(*def, std::move(attrs), where(*this, name));
  std::string key = op.name;
  for (ValueId v : op.in) key += "|" + std::to_string(v);
  key += op.attrs.key() + "|" + std::to_string(stage);
  if (auto it = cse_table_.find(key); it != cse_table_.end()) return it->second;
  const bool weak = def->is_elementwise && std::all_of(op.in.begin(), op.in.end(),
                                                       [&](ValueId v) { return values_[v].weak; });
  const std::vector<plait_shape> outputs = infer(op);
  std::vector<ValueId> made = add(std::move(op), outputs);
  values_[made[0]].weak = weak;
  return cse_table_[key] = std::move(made);
}

// The shapes of the results. Expands a name that stands for another op; converts the weak operands
// of an element-wise op to its type.
std::vector<plait_shape> Graph::infer(Op& op) {
  const OpDef& def = *op.def;
  std::vector<plait_shape> in;
  std::vector<char> weak;
  for (ValueId v : op.in) {
    in.push_back(shape(v));
    weak.push_back(values_[v].weak);
  }
  const Attrs attrs = op.attrs;
  const OpDesc desc(op.name, in, attrs);
  const InferContext context{def, in, attrs, *desc.get(), scope, weak, float_type_};
  std::vector<plait_shape> outputs;
  try {
    outputs = def.lower ? def.lower(context, *this, op) : def.infer(context);
  } catch (const kit::Invalid& e) {
    fail_invalid(context.where() + " " + e.what());
  }
  // A number beside 16 bits stays f32: arithmetic is, and 0.1 is none of theirs.
  if (def.lower && is_float(outputs[0].dtype))
    for (ValueId& v : op.in)
      v = strong(v, dtype_bytes(outputs[0].dtype) == 2 ? uint32_t{PLAIT_F32} : outputs[0].dtype);
  return outputs;
}

// A weak value, computed again in that type; any other value unchanged.
ValueId Graph::strong(ValueId v, uint32_t dtype) {
  if (!values_[v].weak || shape(v).dtype == dtype) return v;
  const std::string key = strf("strong|%u|%u|%d", v, dtype, stage);
  if (auto it = cse_table_.find(key); it != cse_table_.end()) return it->second[0];
  Op op = ops_[static_cast<size_t>(values_[v].producer)];
  op.out.clear();
  for (ValueId& in : op.in) in = strong(in, dtype);
  return (cse_table_[key] = add(std::move(op), {make_shape(dtype, dims_of(shape(v)))}))[0];
}

void Graph::write_like(const Op& op) {
  scope = op.scope;
  backward = op.backward;
  not_deferred = op.not_deferred;
  stage = op.stage;
}

Op Graph::context() const {
  Op op;
  op.scope = scope;
  op.backward = backward;
  op.not_deferred = not_deferred;
  op.stage = stage;
  return op;
}

ValueId Graph::as_type(ValueId v, uint32_t dtype) {
  if (shape(v).dtype == dtype) return v;
  return apply1("cast", {v}, {attr("dtype", static_cast<int64_t>(dtype))});
}

std::vector<ValueId> Graph::add(Op op, const std::vector<plait_shape>& outputs) {
  op.scope = scope;
  op.backward = backward;
  op.not_deferred = not_deferred;
  op.stage = stage;
  bool wants = false;
  for (ValueId v : op.in) {
    wants = wants || values_[v].requires_grad;
    if (const int32_t p = values_[v].producer; !backward && p >= 0)
      op.stage = std::max(op.stage, ops_[static_cast<size_t>(p)].stage);
  }
  for (const auto& s : outputs) {
    Value v;
    v.shape = s;
    v.producer = static_cast<int32_t>(ops_.size());
    v.requires_grad = wants;
    if (op.def->is_view || (op.def->updates_input && op.out.empty())) v.alias_of = op.in[0];
    op.out.push_back(add_value(std::move(v)));
  }
  for (ValueId v : op.in) add_reader(v, static_cast<int32_t>(ops_.size()));
  ops_.push_back(std::move(op));
  return ops_.back().out;
}

ValueId Graph::storage_of(ValueId v) const {
  while (values_[v].alias_of) v = values_[v].alias_of;
  return v;
}

uint64_t Graph::storage_offset(ValueId v) const {
  uint64_t offset = 0;
  for (; values_[v].alias_of; v = values_[v].alias_of) offset += values_[v].byte_offset;
  return offset;
}

bool Graph::is_output(ValueId v) const {
  return values_.at(v).producer >= 0 && values_[storage_of(v)].role == Role::kPersistent;
}

ValueId Graph::buffer(const plait_shape& shape) {
  Value v;
  v.shape = shape;
  return add_value(std::move(v));
}

ValueId Graph::view(ValueId buffer, uint64_t offset, const plait_shape& shape) {
  const ValueId v = this->buffer(shape);
  values_[v].alias_of = buffer;
  values_[v].byte_offset = offset;
  return v;
}

ValueId Graph::bind_into(ValueId v, ValueId buffer, uint64_t offset) {
  Value& r = values_[storage_of(v)];
  if (r.role == Role::kTransient && r.producer >= 0) {
    r.alias_of = buffer;
    r.byte_offset = offset;
    return v;
  }
  return assign(view(buffer, offset, shape(v)), v);
}

ValueId Graph::bind(ValueId v, BufferRef buffer) {
  Value& r = values_[storage_of(v)];
  if (r.role == Role::kTransient && r.producer >= 0) {
    r.role = Role::kPersistent;
    r.buffer = buffer;
    return v;
  }
  const plait_shape s = shape(v);
  Op op = map_op({v}, {{PLAIT_MAP_COPY, 0, 0, 0, 0}}, {1});
  const ValueId copy = add(std::move(op), {s})[0];
  values_[copy].role = Role::kPersistent;
  values_[copy].buffer = buffer;
  return copy;
}

ValueId Graph::assign(ValueId target, ValueId v) {
  if (!same_dims(shape(target), shape(v)))
    fail_internal("[program] assign " + text(shape(v)) + " to " + text(shape(target)));
  Op op = map_op({v}, {{PLAIT_MAP_COPY, 0, 0, 0, 0}}, {1});
  const ValueId out = add(std::move(op), {shape(target)})[0];
  values_[out].alias_of = target;
  return out;
}

ValueId Graph::apply_in_place(std::string_view name, std::vector<ValueId> in, Attrs attrs) {
  const ValueId first = in.at(0);
  const ValueId out = apply1(name, std::move(in), std::move(attrs));
  values_[out].alias_of = first;
  return out;
}

void Graph::add_reader(ValueId v, int32_t op) {
  std::vector<int32_t>& list = readers_.at(v);
  const auto at = std::lower_bound(list.begin(), list.end(), op);
  if (at == list.end() || *at != op) list.insert(at, op);
}

void Graph::drop_reader(ValueId v, int32_t op) {
  std::vector<int32_t>& list = readers_.at(v);
  const auto at = std::lower_bound(list.begin(), list.end(), op);
  if (at != list.end() && *at == op) list.erase(at);
}

void Graph::set_input(size_t i, size_t k, ValueId v) {
  Op& op = ops_.at(i);
  const ValueId old = op.in.at(k);
  op.in[k] = v;
  if (std::find(op.in.begin(), op.in.end(), old) == op.in.end())
    drop_reader(old, static_cast<int32_t>(i));
  add_reader(v, static_cast<int32_t>(i));
  if (op.def->is_view || (op.def->updates_input && k == 0)) values_[op.out[0]].alias_of = v;
}

Op Graph::remove(size_t i) {
  for (ValueId v : ops_.at(i).in) drop_reader(v, static_cast<int32_t>(i));
  for (ValueId v : ops_[i].out)
    if (values_[v].producer == static_cast<int32_t>(i)) values_[v].producer = -1;
  return std::exchange(ops_[i], Op{});
}

void Graph::replace(size_t i, Op by) {
  remove(i);
  for (ValueId v : by.in) add_reader(v, static_cast<int32_t>(i));
  for (ValueId v : by.out) values_[v].producer = static_cast<int32_t>(i);
  ops_[i] = std::move(by);
}

void Graph::reorder(const std::vector<size_t>& order) {
  std::vector<Op> ordered;
  ordered.reserve(order.size());
  for (std::vector<int32_t>& list : readers_) list.clear();
  for (const Op& op : ops_)
    for (ValueId v : op.out) values_[v].producer = -1;
  for (const size_t i : order) {
    const auto at = static_cast<int32_t>(ordered.size());
    ordered.push_back(std::move(ops_.at(i)));
    for (ValueId v : ordered.back().in)
      if (readers_[v].empty() || readers_[v].back() != at) readers_[v].push_back(at);
    for (ValueId v : ordered.back().out) values_[v].producer = at;
  }
  ops_ = std::move(ordered);
  // Forgets results of dropped ops, so that apply() computes them again.
  std::erase_if(cse_table_,
                [&](const auto& entry) { return values_[entry.second[0]].producer < 0; });
}

}  // namespace plait::program
