#include "engine/plan/tensor_update.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <functional>
#include <map>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/plugin_outputs.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/mesh.hpp"
#include "engine/plan/parameter_scope.hpp"
#include "engine/program/c_builder.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"
#include "engine/program/splice.hpp"
#include "engine/program/verify.hpp"

namespace plait::plan {
namespace {

using program::Graph;
using program::make_shape;
using program::ValueId;

// What stands for a value of the update program in the rule's own one: a place in no segment, which
// tells which value it is.
enum Input : uint8_t {
  kParameter,
  kGradient,
  kScale,
  kLearningRate,
  kScheduleFactor,
  kStep,
  kFirstState
};
BufferRef marker(size_t input) { return {kTransient, input}; }

// The rule of one parameter, written for the global tensor.
class Rule {
 public:
  struct StateUse {
    TensorState state;
    ValueId current = 0, next = 0;  // next 0: it stays as it is
  };

  Rule(const Plan& plan, const ParameterGroup& group, const Parameter& parameter)
      : plan_(plan),
        parameter_(parameter),
        optimizer_(optimizer_of(plan, parameter)),
        graph_(std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar)) {
    graph_->scope = group.name;
    build(group);
  }
  // Becomes the program of one rank of the mesh. add: makes a collective known and returns its id.
  using AddToPlan = std::function<int32_t(Collective)>;
  void shard(const AddToPlan& add);

  const Graph& graph() const { return *graph_; }
  ValueId result() const { return result_; }
  const std::vector<StateUse>& states() const { return states_; }

 private:
  void build(const ParameterGroup& group);
  ValueId input(Input i, const char* name, const plait_shape& shape) {
    return graph_->persistent(name, shape, marker(i));
  }
  program::BuildHooks hooks();
  ValueId state(const plait_state& s);
  void set_state(const std::string& name, ValueId v);
  void check_state(const plait_state& s) const;
  int32_t shard_dim_of(const plait_state& s) const;
  [[noreturn]] void malformed(const std::string& what) const;
  StateUse* find(const std::string& name);

  const Plan& plan_;
  const Parameter& parameter_;
  OptimizerOf optimizer_;
  std::unique_ptr<Graph> graph_;
  std::vector<StateUse> states_;
  ValueId result_ = 0;
};

void Rule::malformed(const std::string& what) const {
  fail(PLAIT_ERR_PLUGIN, "[plugin " + optimizer_.plugin + "] optimizer '" + optimizer_.item.name +
                             "' " + what + " for parameter '" + parameter_.name + "' of shape " +
                             program::text(parameter_.shape) + "; tell its author");
}

Rule::StateUse* Rule::find(const std::string& name) {
  const auto at = std::find_if(states_.begin(), states_.end(),
                               [&](const StateUse& s) { return s.state.name == name; });
  return at == states_.end() ? nullptr : &*at;
}

void Rule::check_state(const plait_state& s) const {
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
int32_t Rule::shard_dim_of(const plait_state& s) const {
  if (!parameter_.sharded) return -1;
  const int64_t extent = parameter_.shape.dims[parameter_.shard_dim];
  for (uint32_t d = 0; d < s.shape.ndim; ++d)
    if (s.parameter_dims[d] == parameter_.shard_dim)
      return d == 0 || extent % plan_.grid.tensor() == 0 ? static_cast<int32_t>(d) : -1;
  return -1;
}

ValueId Rule::state(const plait_state& s) {
  check_state(s);
  const plait_shape shape = make_shape(plan_.precision.state, program::dims_of(s.shape));
  if (StateUse* known = find(s.name)) {
    if (!program::same(known->state.shape, shape))
      malformed(std::string("asks for state '") + s.name + "' as " +
                program::text(known->state.shape) + " and as " + program::text(shape));
    return known->current;
  }
  StateUse use;
  use.state = {s.name, s.initial, shape, shard_dim_of(s), {}};
  use.current = graph_->persistent(s.name, shape, marker(kFirstState + states_.size()));
  states_.push_back(use);
  return use.current;
}

void Rule::set_state(const std::string& name, ValueId v) {
  StateUse* known = find(name);
  if (!known) malformed("calls set_state('" + name + "') before state() or tensor_state()");
  if (!program::same_dims(graph_->shape(v), known->state.shape))
    malformed("sets state '" + name + "' to " + program::text(graph_->shape(v)) + ", expected " +
              program::text(known->state.shape));
  known->next = v;
}

program::BuildHooks Rule::hooks() {
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

void Rule::build(const ParameterGroup& group) {
  const plait_shape scalar = make_shape(plan_.precision.scalar, {});
  const plait_shape gradient =
      make_shape(plan_.precision.gradient, program::dims_of(parameter_.shape));
  const ValueId parameter =
      input(kParameter, parameter_.name.c_str(),
            make_shape(plan_.precision.parameter, program::dims_of(parameter_.shape)));
  const ValueId sum = input(kGradient, "gradient", gradient);
  const ValueId mean =
      program::binary(*graph_, "mul", sum, input(kScale, "gradient scale", scalar));
  const plait_parameter_info info = info_of(parameter_);
  const plait_update update{sizeof(plait_update),
                            parameter,
                            mean,
                            input(kLearningRate, "learning_rate", scalar),
                            input(kScheduleFactor, "schedule_factor", scalar),
                            input(kStep, "step", scalar),
                            graph_->constant(group.weight_decay),
                            PLAIT_SCOPE_TENSOR,
                            0,
                            &info};
  const program::BuildHooks own = hooks();
  program::CBuilder builder(*graph_, own);
  const plait_optimizer_item& item = optimizer_.item;
  PluginOutputs<ValueId> room(1, 0);
  const PluginCall at{optimizer_.plugin, "build", "optimizer", item.name};
  const auto call = [&] {
    return item.build(builder.get(), &optimizer_.config.options, &update, room.data());
  };
  check_plugin(at,
               "the update of '" + parameter_.name + "' (" + optimizer_.config.origin.text() + ")",
               call);
  result_ = room.take(at, "outputs, expected")[0];
  if (result_ == 0) malformed("leaves the new parameter unset");
  if (result_ >= graph_->n_values())
    malformed("sets the new parameter to " + std::to_string(result_) + ", which is no value,");
  if (!program::same_dims(graph_->shape(result_), parameter_.shape))
    malformed("makes " + program::text(graph_->shape(result_)));
}

void Rule::shard(const AddToPlan& add) {
  if (!parameter_.sharded) return;  // all ranks have all of it, and do the same
  const Mesh mesh = mesh_of(plan_);
  std::vector<program::MeshAxis> axes;
  for (const MeshRow& row : mesh) {
    axes.push_back(row.axis);
    axes.back().sequence = false;  // the rows of a parameter are no samples
  }
  const program::Placements like_parameter = placements_of(mesh, parameter_);
  // A state lies like the parameter on each axis along which the parameter is sharded.
  const auto placements = [&](const TensorState& s) {
    program::Placements all = like_parameter;
    for (program::Placement& p : all)
      if (p.is_shard()) p = program::shard_along(s.shard_dim);
    return all;
  };
  std::map<ValueId, program::Placements> sharded;
  std::vector<program::RequestedValue> requested{{result_, like_parameter}};
  for (ValueId v = 1; v < graph_->n_values(); ++v) {
    const BufferRef at = graph_->value(v).buffer;
    if (graph_->value(v).producer >= 0) continue;
    if (at == marker(kParameter) || at == marker(kGradient)) sharded[v] = like_parameter;
  }
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
    return add(std::move(c));
  };
  std::vector<ValueId> made;
  graph_ = program::shard_graph(*graph_, axes, sharded, requested, add_collective, made);
  result_ = made[0];
  for (size_t i = 0; i < states_.size(); ++i) states_[i].next = made[i + 1];
  program::verify_after("shard_graph", "update of " + parameter_.name, *graph_);
}

}  // namespace

void declare_tensor_states(PlanDraft& plan, const ParameterGroup& group, Parameter& p) {
  const Rule rule(plan, group, p);
  p.states.clear();
  for (const Rule::StateUse& use : rule.states()) {
    TensorState s = use.state;
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

ValueId write_tensor_update(Graph& g, PlanDraft& plan, const ParameterGroup& group,
                            const Parameter& p, const TensorUpdateInputs& in) {
  Rule rule(plan, group, p);
  rule.shard([&](Collective c) { return plan.add(std::move(c)); });
  std::vector<ValueId> outside{g.as_type(in.parameter, plan.precision.parameter),
                               in.gradient,
                               in.scale,
                               in.learning_rate,
                               in.schedule_factor,
                               in.step};
  for (const TensorState& s : p.states)
    outside.push_back(
        g.persistent(p.name + "." + s.name, local_shape(plan, s.shape, s.shard_dim), s.at));
  const auto value_of = [&](ValueId v) {
    return outside.at(static_cast<size_t>(rule.graph().value(v).buffer.offset));
  };
  const std::vector<ValueId> made = program::splice(g, rule.graph(), value_of);
  const auto own = [&](ValueId v) {
    return rule.graph().value(v).producer < 0 ? value_of(v) : made[v];
  };
  std::vector<NextValue> all{{in.parameter, own(rule.result())}};
  for (size_t i = 0; i < rule.states().size(); ++i)
    if (const ValueId next = rule.states()[i].next)
      all.push_back({outside[kFirstState + i], own(next)});
  if (!group.rounds) return assign_if_finite(g, in.finite, all, 0, nullptr, nullptr, in.split);
  const RoundedElements whole{&p, 0, in.count};
  return assign_if_finite(g, in.finite, all, 0, &plan, &whole);
}

ValueId assign_if_finite(Graph& g, ValueId finite, const std::vector<NextValue>& all, ValueId copy,
                         const Plan* plan, const RoundedElements* rounded, SplitValue* split) {
  std::vector<ValueId> chosen;
  for (const NextValue& one : all) {
    const bool rounds = rounded && chosen.empty();
    const ValueId old = rounds ? g.as_type(one.target, PLAIT_F32) : one.target;
    chosen.push_back(g.apply1("select", {finite, one.next, old}));
  }
  ValueId first = rounded || split ? 0 : g.assign(all[0].target, chosen[0]);
  for (size_t i = 1; i < all.size(); ++i) g.assign(all[i].target, chosen[i]);
  // Last, so that states are written in the pass that makes them.
  if (rounded) first = assign_rounded(g, *plan, *rounded, all[0].target, chosen[0]);
  if (split) first = (*split = assign_split(g, *split, chosen[0])).high;
  if (copy) g.assign(copy, chosen[0]);
  return first;
}

}  // namespace plait::plan
