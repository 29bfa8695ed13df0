#include "tests/cuda_emulator/cudnn/objects.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace emulated_dnn {

std::string last_error;

namespace {

std::set<Object*> objects;

Status refuse(Status s, const std::string& why) {
  last_error = why;
  return s;
}

struct Rule {
  Kind kind;
  Attribute name;
  Type type;
  int64_t most;
  bool needed;
  std::optional<Kind> refers = {};  // of a descriptor: the kind; without: any
};

constexpr Rule kRules[] = {
    {Kind::tensor, Attribute::tensor_id, Type::int64, 1, true},
    {Kind::tensor, Attribute::tensor_type, Type::data_type, 1, true},
    {Kind::tensor, Attribute::tensor_dims, Type::int64, 8, true},
    {Kind::tensor, Attribute::tensor_strides, Type::int64, 8, true},
    {Kind::tensor, Attribute::tensor_alignment, Type::int64, 1, true},
    {Kind::tensor, Attribute::tensor_virtual, Type::boolean, 1, false},
    {Kind::tensor, Attribute::tensor_by_value, Type::boolean, 1, false},
    {Kind::matmul, Attribute::matmul_precision, Type::data_type, 1, true},
    {Kind::matmul_operation, Attribute::matmul_a, Type::descriptor, 1, true, Kind::tensor},
    {Kind::matmul_operation, Attribute::matmul_b, Type::descriptor, 1, true, Kind::tensor},
    {Kind::matmul_operation, Attribute::matmul_c, Type::descriptor, 1, true, Kind::tensor},
    {Kind::matmul_operation, Attribute::matmul_operation, Type::descriptor, 1, true, Kind::matmul},
    {Kind::reduction, Attribute::reduction_operator, Type::reduction_operator, 1, true},
    {Kind::reduction, Attribute::reduction_precision, Type::data_type, 1, true},
    {Kind::reduction_operation, Attribute::reduction_x, Type::descriptor, 1, true, Kind::tensor},
    {Kind::reduction_operation, Attribute::reduction_y, Type::descriptor, 1, true, Kind::tensor},
    {Kind::reduction_operation, Attribute::reduction_operation, Type::descriptor, 1, true,
     Kind::reduction},
    {Kind::pointwise, Attribute::pointwise_mode, Type::pointwise_mode, 1, true},
    {Kind::pointwise, Attribute::pointwise_precision, Type::data_type, 1, true},
    {Kind::pointwise, Attribute::pointwise_axis, Type::int64, 1, false},
    {Kind::pointwise_operation, Attribute::pointwise_operation, Type::descriptor, 1, true,
     Kind::pointwise},
    {Kind::pointwise_operation, Attribute::pointwise_x, Type::descriptor, 1, true, Kind::tensor},
    {Kind::pointwise_operation, Attribute::pointwise_b, Type::descriptor, 1, false, Kind::tensor},
    {Kind::pointwise_operation, Attribute::pointwise_t, Type::descriptor, 1, false, Kind::tensor},
    {Kind::pointwise_operation, Attribute::pointwise_y, Type::descriptor, 1, true, Kind::tensor},
    {Kind::graph, Attribute::graph_handle, Type::handle, 1, true},
    {Kind::graph, Attribute::graph_operations, Type::descriptor, 64, true},  // of several kinds
    {Kind::heuristics, Attribute::heuristics_graph, Type::descriptor, 1, true, Kind::graph},
    {Kind::heuristics, Attribute::heuristics_mode, Type::heuristics_mode, 1, true},
    {Kind::plan, Attribute::plan_handle, Type::handle, 1, true},
    {Kind::plan, Attribute::plan_config, Type::descriptor, 1, true, Kind::engine_config},
    {Kind::variant_pack, Attribute::pack_ids, Type::int64, 64, true},
    {Kind::variant_pack, Attribute::pack_pointers, Type::pointer, 64, true},
    {Kind::variant_pack, Attribute::pack_workspace, Type::pointer, 1, false},
};

Tensor tensor_of(const Object& o) {
  Tensor t;
  t.id = o.get<int64_t>(Attribute::tensor_id);
  t.alignment = o.get<int64_t>(Attribute::tensor_alignment);
  t.type = o.get<Data>(Attribute::tensor_type);
  for (int64_t i = 0; i < 4; ++i) {
    t.dims[static_cast<size_t>(i)] = o.get<int64_t>(Attribute::tensor_dims, i);
    t.strides[static_cast<size_t>(i)] = o.get<int64_t>(Attribute::tensor_strides, i);
  }
  t.is_virtual = o.get<bool>(Attribute::tensor_virtual);
  t.by_value = o.get<bool>(Attribute::tensor_by_value);
  return t;
}

Status check_tensor(const Object& o) {
  if (o.count(Attribute::tensor_dims) != 4 || o.count(Attribute::tensor_strides) != 4)
    return refuse(kBad, "a tensor that has not four dims and strides");
  const Tensor t = tensor_of(o);
  const bool small = std::all_of(t.dims.begin(), t.dims.end(), [](int64_t d) { return d == 1; });
  if (std::any_of(t.dims.begin(), t.dims.end(), [](int64_t d) { return d < 1; }) || t.id == 0 ||
      t.alignment < 1 || (t.alignment & (t.alignment - 1)) || (t.is_virtual && t.by_value) ||
      (t.by_value && !small))
    return refuse(kBad, "a tensor that cannot be");
  return 0;
}

// The operation of a descriptor; its tensors are added to the program.
Operation operation_of(const Object& o, Program& p) {
  const auto use = [&](Attribute name) -> int64_t {
    const Object* at = find(o.get<Descriptor>(name));
    if (!at) return 0;
    const Tensor t = tensor_of(*at);
    p.tensors.emplace(t.id, t);
    return t.id;
  };
  Operation out;
  if (o.kind == Kind::matmul_operation) {
    out.kind = Operation::Kind::matmul;
    out.x = use(Attribute::matmul_a), out.b = use(Attribute::matmul_b);
    out.y = use(Attribute::matmul_c);
  } else if (o.kind == Kind::reduction_operation) {
    out.kind = Operation::Kind::reduction;
    out.reduction = find(o.get<Descriptor>(Attribute::reduction_operation))
                        ->get<Reduction>(Attribute::reduction_operator);
    out.x = use(Attribute::reduction_x), out.y = use(Attribute::reduction_y);
  } else {
    const Object& how = *find(o.get<Descriptor>(Attribute::pointwise_operation));
    out.kind = Operation::Kind::pointwise;
    out.mode = how.get<Pointwise>(Attribute::pointwise_mode);
    out.precision = how.get<Data>(Attribute::pointwise_precision);
    out.axis = how.get<int64_t>(Attribute::pointwise_axis, 0, -1);
    out.x = use(Attribute::pointwise_x), out.b = use(Attribute::pointwise_b);
    out.t = use(Attribute::pointwise_t), out.y = use(Attribute::pointwise_y);
  }
  return out;
}

// One id is one descriptor: two that differ are a mistake.
Status make_program(Object& o) {
  auto p = std::make_shared<Program>();
  std::map<int64_t, Descriptor> owner;
  for (int64_t i = 0; i < o.count(Attribute::graph_operations); ++i) {
    const Object& op = *find(o.get<Descriptor>(Attribute::graph_operations, i));
    for (const auto& [name, value] : op.values) {
      const auto at = op.get<Descriptor>(name);
      if (find(at)->kind != Kind::tensor) continue;
      const int64_t id = tensor_of(*find(at)).id;
      if (owner.emplace(id, at).first->second != at) return refuse(kBad, "two tensors of one id");
    }
    p->operations.push_back(operation_of(op, *p));
  }
  if (const std::string fault = p->fault(); !fault.empty()) return refuse(kUnsupported, fault);
  o.program = std::move(p);
  return 0;
}

Status check_pack(const Object& o) {
  const int64_t n = o.count(Attribute::pack_ids);
  std::set<int64_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.insert(o.get<int64_t>(Attribute::pack_ids, i));
  if (static_cast<int64_t>(ids.size()) != n || o.count(Attribute::pack_pointers) != n)
    return refuse(kBad, "not as many pointers as ids");
  return 0;
}

}  // namespace

Object* find(Descriptor d) {
  auto* o = static_cast<Object*>(d);
  return objects.contains(o) ? o : nullptr;
}

Descriptor create(Kind kind) {
  const bool filled = kind == Kind::engine || kind == Kind::engine_config;
  const bool known = std::any_of(std::begin(kRules), std::end(kRules),
                                 [&](const Rule& r) { return r.kind == kind; });
  if (!filled && !known) return nullptr;
  auto* o = new Object;
  o->kind = kind;
  objects.insert(o);
  return o;
}

bool destroy(Descriptor d) {
  Object* o = find(d);
  if (!o) return false;
  objects.erase(o);
  delete o;
  return true;
}

size_t count_objects() { return objects.size(); }

uint64_t size_of(Type type) {
  switch (type) {
    case Type::boolean:
    case Type::characters:
      return 1;
    case Type::handle:
    case Type::int64:
    case Type::pointer:
    case Type::descriptor:
      return 8;
    default:
      return 4;
  }
}

Status set(Object& o, Attribute name, Type type, int64_t count, const void* values) {
  if (o.complete || !values) return refuse(kBad, "an attribute of a finalized descriptor");
  for (const Rule& r : kRules) {
    if (r.kind != o.kind || r.name != name) continue;
    if (r.type != type) return refuse(kWrongType, "an attribute of another type");
    if (count < 1 || count > r.most) return refuse(kBad, "too many values");
    const auto* bytes = static_cast<const unsigned char*>(values);
    Value v{type, count, {bytes, bytes + static_cast<uint64_t>(count) * size_of(type)}};
    for (int64_t i = 0; type == Type::descriptor && i < count; ++i) {
      Descriptor d = nullptr;
      std::memcpy(&d, bytes + static_cast<uint64_t>(i) * sizeof d, sizeof d);
      const Object* to = find(d);
      if (!to || !to->complete) return refuse(kNotFinal, "a descriptor that is not finalized");
      if (r.refers && to->kind != *r.refers) return refuse(kBad, "a descriptor of another kind");
    }
    o.values[name] = std::move(v);
    return 0;
  }
  return refuse(kBad, "an attribute that the descriptor does not have");
}

Status complete(Object& o) {
  if (o.complete) return refuse(kBad, "a descriptor that is finalized already");
  for (const Rule& r : kRules)
    if (r.kind == o.kind && r.needed && o.count(r.name) == 0)
      return refuse(
          kBad, "a descriptor without attribute " + std::to_string(static_cast<int32_t>(r.name)));
  for (const Attribute sums : {Attribute::matmul_precision, Attribute::reduction_precision})
    if (o.count(sums) > 0 && o.get<Data>(sums) != Data::f32)
      return refuse(kBad, "sums in another type than f32");
  Status s = 0;
  if (o.kind == Kind::tensor) s = check_tensor(o);
  if (o.kind == Kind::graph) s = make_program(o);
  if (o.kind == Kind::variant_pack) s = check_pack(o);
  if (o.kind == Kind::heuristics)
    o.program = find(o.get<Descriptor>(Attribute::heuristics_graph))->program;
  if (o.kind == Kind::plan) {
    const Object& config = *find(o.get<Descriptor>(Attribute::plan_config));
    o.program = config.program;
    o.engine = config.engine;
  }
  o.complete = s == 0;
  return s;
}

}  // namespace emulated_dnn
