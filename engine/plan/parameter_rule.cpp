#include "engine/plan/parameter_rule.hpp"

#include <algorithm>
#include <utility>

#include "engine/plan/compile.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/mesh.hpp"
#include "engine/plan/zero.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"
#include "engine/program/splice.hpp"
#include "engine/program/verify.hpp"

namespace plait::plan {

using program::Graph;
using program::make_shape;
using program::ValueId;

ParameterRule::ParameterRule(const Plan& plan, std::string name, Work work)
    : plan_(plan),
      name_(std::move(name)),
      work_(work),
      graph_(std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar)) {
  graph_->scope = name_;
}

// A parameter stands in no segment here; its offset tells which of `reads_` it is.
ValueId ParameterRule::read(const Parameter& p) {
  for (const Read& r : reads_)
    if (r.parameter == &p) return r.value;
  const ValueId stored = graph_->persistent(p.name, p.shape, {kTransient, reads_.size()});
  reads_.push_back({&p, stored, graph_->as_type(stored, plan_.precision.compute)});
  return reads_.back().value;
}

const Parameter* ParameterRule::parameter_of(ValueId v) const {
  for (const Read& r : reads_)
    if (r.value == v) return r.parameter;
  return nullptr;
}

bool ParameterRule::is_together() const {
  if (writes_.empty()) return true;
  const std::vector<int32_t>& writers = writes_.front().parameter->holders;
  return std::all_of(writes_.begin(), writes_.end(),
                     [&](const Write& w) { return w.parameter->holders == writers; }) &&
         std::all_of(reads_.begin(), reads_.end(), [&](const Read& r) {
           return std::all_of(writers.begin(), writers.end(),
                              [&](int32_t pipeline) { return r.parameter->held_by(pipeline); });
         });
}

bool ParameterRule::is_held() const {
  const auto held = [&](const auto& use) { return use.parameter->held_by(plan_.at.pipeline); };
  return std::all_of(reads_.begin(), reads_.end(), held) &&
         std::all_of(writes_.begin(), writes_.end(), held);
}

std::vector<ValueId> ParameterRule::shard_graph(
    PlanDraft& plan, const Graph& whole, const std::vector<program::RequestedValue>& requested) {
  const Mesh mesh = mesh_of(plan);
  std::vector<program::MeshAxis> axes;
  for (const MeshRow& row : mesh) {
    axes.push_back(row.axis);
    axes.back().sequence = false;  // the rows of a parameter are no samples
  }
  std::map<ValueId, program::Placements> sharded;
  for (const Read& r : reads_)
    if (r.parameter->sharded) sharded[r.stored] = placements_of(mesh, *r.parameter);
  const auto add = [&](size_t axis, const std::string& name, uint32_t kind, uint32_t reduction,
                       uint32_t dtype, uint64_t n) {
    Collective c;
    c.name = name + " of " + name_;
    c.axis = mesh[axis].group;
    c.kind = kind;
    c.reduction = reduction;
    c.dtype = dtype;
    c.n = n;
    return plan.add(std::move(c));
  };
  std::vector<ValueId> made;
  graph_ = program::shard_graph(whole, axes, sharded, requested, add, made);
  return made;
}

namespace {

// The own part of a value, with the padding behind it.
ValueId own_part(Graph& g, const Plan& plan, const Parameter& p, ValueId v) {
  const auto d = static_cast<size_t>(p.shard_dim);
  const int64_t begin = p.box.offset[d], n = p.box.extent[d],
                room = local_shape(plan, p.shape, p.shard_dim).dims[d];
  const auto axis = program::attr("axis", static_cast<int64_t>(d));
  if (n == 0) {
    plait_shape shape = g.shape(v);
    shape.dims[d] = room;
    return program::filled(g, shape, 0);
  }
  v = g.apply1("slice", {v},
               {axis, program::attr("start", begin), program::attr("stop", begin + n)});
  if (n == room) return v;
  return g.apply1("pad", {v},
                  {axis, program::attr("before", int64_t{0}), program::attr("after", room - n)});
}

}  // namespace

// Gathers what is read, computes all of it, and keeps the own part.
void ParameterRule::gather_and_slice(PlanDraft& plan) {
  const std::unique_ptr<Graph> whole = std::move(graph_);
  Graph reads(plan.ops.get(), plan.precision.scalar);
  reads.scope = name_;
  const program::Placements replicated(mesh_of(plan).size());
  std::vector<program::RequestedValue> requested;
  for (size_t i = 0; i < reads_.size(); ++i) {
    const Parameter& p = *reads_[i].parameter;
    reads_[i].stored = reads.persistent(p.name, p.shape, {kTransient, i});
    requested.push_back({reads_[i].stored, replicated});
  }
  const std::vector<ValueId> gathered = shard_graph(plan, reads, requested);
  const auto outside = [&](ValueId v) { return gathered.at(whole->value(v).buffer.offset); };
  const std::vector<ValueId> made = program::splice(*graph_, *whole, outside);
  graph_->scope = name_;
  for (Write& w : writes_) {
    w.value = whole->value(w.value).producer < 0 ? outside(w.value) : made[w.value];
    if (w.parameter->sharded) w.value = own_part(*graph_, plan, *w.parameter, w.value);
  }
}

void ParameterRule::shard(PlanDraft& plan) {
  const Mesh mesh = mesh_of(plan);
  if (mesh.empty()) return;
  if (work_ == Work::kRepeated) {
    gather_and_slice(plan);
  } else {
    std::vector<program::RequestedValue> requested;
    for (const Write& w : writes_)
      requested.push_back({w.value, placements_of(mesh, *w.parameter)});
    const std::unique_ptr<Graph> whole = std::move(graph_);
    const std::vector<ValueId> made = shard_graph(plan, *whole, requested);
    for (size_t i = 0; i < writes_.size(); ++i) writes_[i].value = made[i];
  }
  program::verify_after("shard_graph", name_, *graph_);
}

ParameterProgram::ParameterProgram(PlanDraft& plan, std::string name)
    : plan_(plan),
      name_(std::move(name)),
      graph_(std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar)) {}

const ParameterProgram::Place& ParameterProgram::place_of(const Parameter& p) {
  const auto [at, is_new] = places_.try_emplace(&p);
  if (!is_new) return at->second;
  const plait_shape shape = local_shape(plan_, p.shape, p.sharded ? p.shard_dim : -1);
  Place& place = at->second;
  if (p.is_quantized()) {
    place.numbers = numbers_of(*graph_, plan_, p);
    place.value = dequantized(*graph_, plan_, p, place.numbers);
  } else if (p.is_split()) {
    place.halves = halves_of(*graph_, p, shape);
    place.value = joined(*graph_, place.halves);
  } else {
    place.value = graph_->persistent(p.name, shape, p.value);
  }
  return place;
}

void ParameterProgram::add(ParameterRule rule) {
  rule.shard(plan_);
  graph_->scope = rule.name_;
  const auto outside = [&](ValueId v) {
    return place_of(*rule.reads_.at(rule.graph().value(v).buffer.offset).parameter).value;
  };
  const std::vector<ValueId> made = program::splice(*graph_, rule.graph(), outside);
  // All are made before the first is written.
  for (const ParameterRule::Write& w : rule.writes_) {
    graph_->scope = rule.name_;
    const bool is_read = rule.graph().value(w.value).producer < 0;
    assign(*w.parameter, is_read ? outside(w.value) : made[w.value]);
  }
}

void ParameterProgram::assign(const Parameter& p, ValueId v) {
  if (is_divided(plan_, p)) return assign_own_part(p, v);
  v = graph_->as_type(v, p.shape.dtype);
  const Place& place = place_of(p);
  if (p.is_quantized())
    assign_numbers(*graph_, p, place.numbers, v);
  else if (p.is_split())
    assign_split(*graph_, place.halves, v);
  else
    graph_->assign(place.value, v);
}

// With ZeRO 3: those elements that this replica keeps. None are written, too: all replicas must
// gather the same.
void ParameterProgram::assign_own_part(const Parameter& p, ValueId v) {
  const ParameterGroup& group = group_of(plan_, p);
  const Bucket& bucket = bucket_of(plan_, p);
  const topology::Range all_of{p.flat_offset, p.flat_offset + p.stored_elements},
      shard{bucket.shard_begin, bucket.shard_begin + bucket.shard_elements};
  const topology::Range common = topology::intersect(all_of, shard);
  const int64_t begin = common.empty() ? all_of.begin : common.begin,
                end = common.empty() ? all_of.begin : common.end;
  const BufferRef at =
      offset_by(parameter_shard(plan_, group, bucket),
                common.empty() ? 0 : begin - bucket.shard_begin, group.parameters.dtype);
  const ValueId own = graph_->persistent(p.name + ", own part",
                                         make_shape(group.parameters.dtype, {end - begin}), at);
  const ValueId all = program::reshaped(*graph_, v, {p.stored_elements});
  const ValueId part = graph_->apply1(
      "slice", {all},
      {program::attr("axis", int64_t{0}), program::attr("start", begin - p.flat_offset),
       program::attr("stop", end - p.flat_offset)});
  graph_->assign(own, graph_->as_type(part, group.parameters.dtype));
}

int32_t ParameterProgram::finish() {
  std::map<const Parameter*, ValueId> values;
  for (const auto& [p, place] : places_) values[p] = place.value;
  if (plan_.zero == 3) gather_parameters(*graph_, plan_, values);
  program::verify_after("parameter rules", name_, *graph_);
  return plan_.add(compile(name_, std::move(graph_), plan_));
}

}  // namespace plait::plan
