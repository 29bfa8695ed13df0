#include "engine/plan/tensor_rule.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/mesh.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"
#include "engine/program/splice.hpp"
#include "engine/program/verify.hpp"

namespace plait::plan {

using program::Graph;
using program::make_shape;
using program::ValueId;

namespace {

// What stands for a value of the update program in the rule's own one: a place in no segment, which
// tells which input it is, or which state.
constexpr uint64_t kFirstState = uint64_t{1} << 32;
BufferRef marker(uint64_t input) { return {kTransient, input}; }

}  // namespace

TensorRule::TensorRule(const Plan& plan, const Parameter& parameter, std::string scope,
                       std::string author, std::string prefix,
                       const std::vector<TensorState>& known)
    : plan_(plan),
      parameter_(parameter),
      author_(std::move(author)),
      prefix_(std::move(prefix)),
      graph_(std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar)) {
  graph_->scope = std::move(scope);
  for (const TensorState& s : known) {
    const ValueId v = graph_->persistent(s.name, s.shape, marker(kFirstState + states_.size()));
    states_.push_back({s, v, 0, v});
  }
}

void TensorRule::check_value(ValueId v) const {
  if (v == 0 || v >= graph_->n_values())
    malformed("returns the id " + std::to_string(v) + ", which is no value,");
}

void TensorRule::malformed(const std::string& what) const {
  fail(PLAIT_ERR_PLUGIN, author_ + " " + what + " for parameter '" + parameter_.name +
                             "' of shape " + program::text(parameter_.shape) + "; tell its author");
}

ValueId TensorRule::input(const std::string& name, const plait_shape& shape, bool like_parameter) {
  const ValueId v = graph_->persistent(name, shape, marker(inputs_.size()));
  inputs_.push_back({v, like_parameter});
  return v;
}

TensorRule::StateUse* TensorRule::find(const std::string& name) {
  const auto at = std::find_if(states_.begin(), states_.end(),
                               [&](const StateUse& s) { return s.state.name == prefix_ + name; });
  return at == states_.end() ? nullptr : &*at;
}

void TensorRule::check_state(const plait_state& s) const {
  const std::string of = std::string("asks for state '") + s.name + "'";
  uint32_t along = 0;  // dimensions of the parameter, as bits
  for (uint32_t d = 0; d < s.shape.ndim; ++d) {
    if (s.shape.dims[d] < 0)
      malformed(strf("%s with an extent of %ld in dimension %u", of.c_str(),
                     static_cast<long>(s.shape.dims[d]), d));
    const int32_t p = s.parameter_dims[d];
    if (p == -1) continue;
    if (p < 0 || p >= static_cast<int32_t>(parameter_.shape.ndim))
      malformed(strf("%s whose dimension %u runs along dimension %d", of.c_str(), d, p));
    if (s.shape.dims[d] != parameter_.shape.dims[p])
      malformed(strf("%s with an extent of %ld in dimension %u, expected %ld as in dimension %d",
                     of.c_str(), static_cast<long>(s.shape.dims[d]), d,
                     static_cast<long>(parameter_.shape.dims[p]), p));
    if ((along & (1u << p)) != 0)
      malformed(strf("%s with two dimensions along dimension %d", of.c_str(), p));
    along |= 1u << p;
  }
}

// The dimension of a state that tensor ranks share. Padding must lie behind what there is.
int32_t TensorRule::shard_dim_of(const plait_state& s) const {
  if (!parameter_.sharded) return -1;
  const int64_t extent = parameter_.shape.dims[parameter_.shard_dim];
  for (uint32_t d = 0; d < s.shape.ndim; ++d)
    if (s.parameter_dims[d] == parameter_.shard_dim)
      return d == 0 || extent % plan_.grid.tensor() == 0 ? static_cast<int32_t>(d) : -1;
  return -1;
}

bool TensorRule::is_like_parameter(const plait_state& s) const {
  if (!program::same_dims(s.shape, parameter_.shape)) return false;
  for (uint32_t d = 0; d < s.shape.ndim; ++d)
    if (s.parameter_dims[d] != static_cast<int32_t>(d)) return false;
  return true;
}

ValueId TensorRule::state(const plait_state& s) {
  check_state(s);
  const uint32_t type = low_states_ && is_like_parameter(s) ? kLowState : plan_.precision.state;
  const plait_shape shape = make_shape(type, program::dims_of(s.shape));
  if (StateUse* known = find(s.name)) {
    if (!program::same(known->state.shape, shape))
      malformed(std::string("asks for state '") + s.name + "' as " +
                program::text(known->state.shape) + " and as " + program::text(shape));
    return known->read;
  }
  StateUse use;
  use.state = {prefix_ + s.name, s.initial, shape, shard_dim_of(s), {}};
  use.current = graph_->persistent(use.state.name, shape, marker(kFirstState + states_.size()));
  use.read = graph_->as_type(use.current, plan_.precision.state);
  states_.push_back(use);
  return use.read;
}

void TensorRule::set_state(const std::string& name, ValueId v) {
  StateUse* known = find(name);
  if (!known) malformed("calls set_state('" + name + "') before state() or tensor_state()");
  if (!program::same_dims(graph_->shape(v), known->state.shape))
    malformed("sets state '" + name + "' to " + program::text(graph_->shape(v)) + ", expected " +
              program::text(known->state.shape));
  known->next = v;
}

program::BuildHooks TensorRule::hooks() {
  program::BuildHooks hooks;
  hooks.training = true;
  hooks.state = [this](const std::string& name, double initial) {
    plait_state s{sizeof(plait_state), name.c_str(), parameter_.shape, initial, {}};
    for (uint32_t d = 0; d < s.shape.ndim; ++d) s.parameter_dims[d] = static_cast<int32_t>(d);
    return state(s);
  };
  hooks.tensor_state = [this](const plait_state& s) { return state(s); };
  hooks.set_state = [this](const std::string& name, ValueId v) { set_state(name, v); };
  return hooks;
}

void TensorRule::shard(PlanDraft& plan) {
  if (!parameter_.sharded) return;  // all ranks have all of it, and do the same
  const Mesh mesh = mesh_of(plan_);
  std::vector<program::MeshAxis> axes;
  for (const MeshRow& row : mesh) {
    axes.push_back(row.axis);
    axes.back().sequence = false;  // the rows of a parameter are no samples
  }
  const program::Placements like_parameter = placements_of(mesh, parameter_),
                            replicated(mesh.size());
  // A state lies like the parameter on each axis along which the parameter is sharded.
  const auto placements = [&](const TensorState& s) {
    program::Placements all = like_parameter;
    for (program::Placement& p : all)
      if (p.is_shard()) p = program::shard_along(s.shard_dim);
    return all;
  };
  std::map<ValueId, program::Placements> sharded;
  std::vector<program::RequestedValue> requested;
  for (const Port& in : inputs_)
    if (in.like_parameter) sharded[in.value] = like_parameter;
  for (const Port& out : results_)
    requested.push_back({out.value, out.like_parameter ? like_parameter : replicated});
  for (const StateUse& s : states_) {
    sharded[s.current] = placements(s.state);
    requested.push_back({s.next, placements(s.state)});
  }
  const auto add_collective = [&](size_t axis, const std::string& name, uint32_t kind,
                                  uint32_t reduction, uint32_t dtype, uint64_t n) {
    Collective c;
    c.name = name + " of " + parameter_.name;
    c.axis = mesh[axis].group;
    c.kind = kind;
    c.reduction = reduction;
    c.dtype = dtype;
    c.n = n;
    c.own_replica = plan_.zero > 0;
    return plan.add(std::move(c));
  };
  std::vector<ValueId> made;
  graph_ = program::shard_graph(*graph_, axes, sharded, requested, add_collective, made);
  for (size_t i = 0; i < results_.size(); ++i) results_[i].value = made[i];
  for (size_t i = 0; i < states_.size(); ++i) states_[i].next = made[results_.size() + i];
  program::verify_after("shard_graph", "update of " + parameter_.name, *graph_);
}

std::vector<ValueId> TensorRule::write(Graph& g, const std::vector<ValueId>& inputs,
                                       const std::vector<ValueId>& states,
                                       std::vector<ValueId>& next) const {
  const auto value_of = [&](ValueId v) {
    const uint64_t at = graph_->value(v).buffer.offset;
    return at < kFirstState ? inputs.at(at) : states.at(at - kFirstState);
  };
  const std::vector<ValueId> made = program::splice(g, *graph_, value_of);
  const auto own = [&](ValueId v) {
    return v == 0 ? 0 : graph_->value(v).producer < 0 ? value_of(v) : made[v];
  };
  std::vector<ValueId> results;
  for (const Port& out : results_) results.push_back(own(out.value));
  next.clear();
  for (const StateUse& s : states_) next.push_back(own(s.next));
  return results;
}

void declare_rule_states(PlanDraft& plan, const ParameterGroup& group, Parameter& p,
                         const TensorRule& rule) {
  for (size_t i = p.states.size(); i < rule.states().size(); ++i) {
    TensorState s = rule.states()[i].state;
    if (is_owned(plan, p)) {
      const std::string name = segment_name(group) + "." + s.name;
      const auto& segments = plan.storage.segments();
      auto at = std::find_if(segments.begin(), segments.end(), [&](const Segment& segment) {
        return segment.name == name && segment.category == Category::kOptimizer;
      });
      const int32_t segment = at == segments.end() ? plan.storage.add(name, Category::kOptimizer)
                                                   : static_cast<int32_t>(at - segments.begin());
      s.at =
          plan.storage.allocate(segment, program::bytes(local_shape(plan, s.shape, s.shard_dim)));
    }
    p.states.push_back(std::move(s));
  }
}

}  // namespace plait::plan
