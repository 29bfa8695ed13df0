// The update program: one element-wise pass over each group's flat shard. N elements of a group.
#include <plait/comm.h>

#include <algorithm>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/exchange.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/steps.hpp"
#include "engine/program/c_builder.hpp"
#include "engine/program/rule.hpp"

namespace plait::plan {
namespace {

using program::attr;
using program::Graph;
using program::make_shape;
using program::operator_;
using program::ValueId;

const plait_shape kScalar = {PLAIT_F32, 0, {}};

// What all groups of a model need: the factor on every gradient, and whether this step may be applied.
struct Common {
  ValueId scale, finite;
};

// The sum over the first dimension.
ValueId folded(Graph& g, ValueId v, const char* kind) {
  return g.apply1("reduce", {v},
                  {attr("kind", std::string(kind)), attr("axes", std::vector<int64_t>{0}),
                   attr("keep", false)});
}

// A number that each rank of an axis has a term of.
ValueId summed(Graph& g, Plan& plan, const std::string& name, topology::Axis axis, ValueId v) {
  if (ranks_of(plan, axis) == 1) return v;
  const int32_t exchange = add_exchange(plan, name, axis, PLAIT_COMM_ALL_REDUCE);
  return wait_exchange(g, exchange, start_all_reduce(g, plan, exchange, {v}));
}

// A zero that nobody else reads: what is summed over ranks is summed in place.
ValueId own_zero(Graph& g) {
  program::Op op;
  op.name = "map";
  op.rule = g.rules()->find("map");
  op.map.instrs = {{PLAIT_MAP_CONST, 0, 0, 0, 0}};
  op.map.outputs = {0};
  return g.append(std::move(op), {kScalar})[0];
}

// Own gradients of a model: of parameters that all tensor ranks have alike, and of those that they share. What several pipeline
// ranks hold, the first of them counts.
struct Gradients {
  std::vector<ValueId> alike, split;
};

// Σ g² of all gradients of a model, each counted once: from the sums the micro program left, or else from the gradients.
ValueId write_squares(Graph& g, Plan& plan, const Model& model, const Gradients& gradients) {
  if (model.squares >= 0) {
    const auto& segment = plan.storage.segments()[static_cast<size_t>(model.squares)];
    return folded(
        g,
        flat(g, model.name + ".squares", model.squares, 0, static_cast<int64_t>(segment.bytes / 4)),
        "sum");
  }
  const auto add = [&](ValueId a, ValueId b) { return a && b ? operator_(g, "add", a, b) : a + b; };
  const auto of = [&](const std::vector<ValueId>& all) {
    ValueId sum = 0;
    for (ValueId v : all) sum = add(sum, folded(g, v, "sum_squares"));
    return sum;
  };
  const std::string name = "squares of " + model.name;
  ValueId split = of(gradients.split);
  if (split) split = summed(g, plan, name + ", parts", topology::Axis::kTensor, split);
  ValueId sum = add(of(gradients.alike), split);
  if (!sum) sum = own_zero(g);  // none of the model's parameters is here
  if (plan.zero > 0) sum = summed(g, plan, name, topology::Axis::kData, sum);
  return summed(g, plan, name + ", by stage", topology::Axis::kPipeline, sum);
}

Common write_norm(Graph& g, Plan& plan, size_t m, const Gradients& gradients) {
  const Model& model = plan.models[m];
  g.scope = model.name + ".optimizer";
  const ValueId sum = write_squares(g, plan, model, gradients);
  const ValueId loss_sum = g.persistent("loss_sum", kScalar, model.loss_sum);
  const ValueId weight_sum = g.persistent("weight_sum", kScalar, model.weight_sum);
  const ValueId inverse = g.apply1("recip", {weight_sum});
  const ValueId norm = operator_(g, "mul", g.apply1("sqrt", {sum}), inverse);
  const ValueId loss = operator_(g, "mul", loss_sum, inverse);
  const ValueId finite =
      operator_(g, "and", g.apply1("is_finite", {norm}), g.apply1("is_finite", {loss}));
  ValueId scale = inverse;
  if (const double clip = plan.experiment.models[m].optimizer->clip; clip > 0) {
    // As everybody defines it: gradients * min(1, clip / (norm + 1e-6)).
    const ValueId ratio =
        operator_(g, "div", g.constant(clip), operator_(g, "add", norm, g.constant(1e-6)));
    scale = operator_(g, "mul", inverse, operator_(g, "min", g.constant(1), ratio));
  }
  g.bind(loss, model.loss);
  g.bind(norm, model.norm);
  return {scale, finite};
}

// What an optimizer reads and writes of a part: the own elements.
struct PartValues {
  ValueId parameter, gradient;
};

// The optimizer's rule, applied to a part. Its states are added to the group when the first part asks for them.
// Returns the parameter's own elements as they are then.
ValueId write_part(Graph& g, Plan& plan, Group& group, const Part& part, const PartValues& values,
                   const Common& common) {
  const config::OptimizerConfig& config =
      *plan.experiment.models[static_cast<size_t>(group.model)].optimizer;
  const plait_optimizer_item& item = plan.registry->optimizer(config.type);
  std::vector<ValueId> current(group.states.size(), 0), next(group.states.size(), 0);
  const auto index_of = [&](const std::string& name) {
    const auto at = std::find_if(group.states.begin(), group.states.end(),
                                 [&](const State& s) { return s.name == name; });
    return static_cast<size_t>(at - group.states.begin());
  };
  program::BuildHooks hooks;
  hooks.training = true;
  hooks.state = [&](const std::string& name, double initial) {
    const size_t i = index_of(name);
    if (i == group.states.size()) {
      const int32_t segment =
          plan.storage.add(segment_name(group) + "." + name, Category::kOptimizer);
      plan.storage.take(segment, static_cast<uint64_t>(group.own_elements) * 4);
      group.states.push_back({name, initial, segment});
      current.push_back(0);
      next.push_back(0);
    }
    if (current[i] == 0)
      current[i] = flat(g, group.name + "." + name, group.states[i].segment, part.state_begin,
                        part.own_elements);
    return current[i];
  };
  hooks.set_state = [&](const std::string& name, ValueId v) {
    const size_t i = index_of(name);
    if (i == group.states.size() || current[i] == 0)
      fail_invalid("[" + g.scope + "] set_state('" + name + "') before state('" + name + "')");
    next[i] = v;
  };
  program::CBuilder builder(g, hooks);
  const plait_update update{sizeof(plait_update),
                            values.parameter,
                            operator_(g, "mul", values.gradient, common.scale),
                            g.persistent("rate", kScalar, group.rate_at),
                            g.persistent("factor", kScalar, group.factor_at),
                            g.persistent("step", kScalar, plan.step),
                            g.constant(group.decay)};
  ValueId out = 0;
  const std::string& plugin = plan.registry->plugin_of(&item);
  const auto call = [&] { return item.build(builder.get(), &config.options, &update, &out); };
  check_plugin(try_plugin({plugin, "build", "optimizer", item.name}, call), plugin,
               "building optimizer '" + config.type + "' (" + config.origin.text() + ")");
  if (out == 0)
    fail(PLAIT_ERR_PLUGIN, "[plugin " + plugin + "] optimizer left the parameter unset");
  // A step that is not finite changes nothing, on every rank alike.
  auto apply = [&](ValueId target, ValueId v) {
    return g.assign(target, g.apply1("select", {common.finite, v, target}));
  };
  const ValueId updated = apply(values.parameter, out);
  for (size_t i = 0; i < group.states.size(); ++i)
    if (next[i]) apply(current[i], next[i]);
  return updated;
}

// The own elements of a part's gradients, when the replicas have exchanged them.
ValueId own_gradient(Graph& g, const Plan& plan, const Group& group, const Part& part) {
  const ValueId v =
      g.persistent(group.name + ".gradients", make_shape(PLAIT_F32, {part.own_elements}),
                   own_gradients(plan, group, part));
  return part.reduce < 0 ? v : wait_exchange(g, part.reduce, v);
}

// The sum over the pipeline ranks that have the same parameters: each sends its gradients to the others, and all add them up in the
// same order.
ValueId tied_gradient(Graph& g, Plan& plan, const Group& group, ValueId own) {
  if (group.tied.empty()) return own;
  const auto message = [&](uint32_t kind, int32_t peer) {
    const int32_t id =
        add_exchange(plan, "gradients of tied " + group.name, topology::Axis::kPipeline, kind);
    plan.exchanges[static_cast<size_t>(id)].peer = static_cast<uint32_t>(peer);
    return id;
  };
  struct Started {
    int32_t exchange;
    ValueId v;
  };
  std::vector<Started> sent, received;
  for (const int32_t r : group.tied) {
    if (r == plan.at.pipeline) {
      received.push_back({-1, own});
      continue;
    }
    const int32_t to = message(PLAIT_COMM_SEND, r), from = message(PLAIT_COMM_RECEIVE, r);
    sent.push_back({to, start_send(g, plan, to, own)});
    received.push_back({from, start_receive(g, plan, from, g.shape(own))});
  }
  ValueId sum = 0;
  for (const Started& s : received) {
    const ValueId v = s.exchange < 0 ? s.v : wait_exchange(g, s.exchange, s.v);
    sum = sum ? operator_(g, "add", sum, v) : v;
  }
  for (const Started& s : sent) wait_exchange(g, s.exchange, s.v);
  return sum;
}

// Replicas that share the update hand each other what they made of their own elements. Returns the exchange.
int32_t gather_part(Graph& g, Plan& plan, const Group& group, const Part& part, ValueId updated) {
  const int32_t exchange = add_exchange(plan, "parameters of " + group.name, topology::Axis::kData,
                                        PLAIT_COMM_ALL_GATHER);
  start_all_gather(g, plan, exchange, {updated},
                   {group.parameters, static_cast<uint64_t>(part.begin) * 4});
  return exchange;
}

void write_model(Graph& g, Plan& plan, size_t m, const std::vector<ValueId>& gradients,
                 const Common& common) {
  std::vector<std::pair<int32_t, ValueId>> gathered;
  size_t k = 0;
  for (Group& group : plan.groups) {
    if (group.model != static_cast<int32_t>(m)) continue;
    g.scope = group.name;
    for (const Part& part : group.parts) {
      const ValueId own =
          g.persistent(group.name + ".parameters", make_shape(PLAIT_F32, {part.own_elements}),
                       own_parameters(plan, group, part));
      const ValueId updated = write_part(g, plan, group, part, {own, gradients[k++]}, common);
      if (part.own_elements == part.elements || plan.zero == 3) continue;
      const ValueId all =
          flat(g, group.name + ".parameters", group.parameters, part.begin, part.elements);
      gathered.emplace_back(gather_part(g, plan, group, part, updated), all);
    }
  }
  for (const auto& [exchange, v] : gathered) wait_exchange(g, exchange, v);
}

// The gradients of a model's groups, in the order of groups and parts; own: those that this rank counts.
std::vector<ValueId> gradients_of(Graph& g, Plan& plan, size_t m, Gradients& own) {
  std::vector<ValueId> all;
  for (const Group& group : plan.groups) {
    if (group.model != static_cast<int32_t>(m)) continue;
    g.scope = group.name;
    const bool counts = group.tied.empty() || group.tied[0] == plan.at.pipeline;
    for (const Part& part : group.parts) {
      all.push_back(tied_gradient(g, plan, group, own_gradient(g, plan, group, part)));
      if (counts) (group.split ? own.split : own.alike).push_back(all.back());
    }
  }
  return all;
}

// What the ranks counted becomes what all of them did.
void finish_sums(Graph& g, Plan& plan) {
  g.scope = "replicas";
  const auto of = [&](const char* name, int64_t first, int64_t n) {
    return g.persistent(name, make_shape(PLAIT_F32, {n}),
                        {plan.votes.segment, plan.votes.offset + static_cast<uint64_t>(first) * 4});
  };
  const int64_t n = plan.n_sums();
  if (plan.sums_exchange >= 0) wait_exchange(g, plan.sums_exchange, of("sums", 0, 2));
  // Tensor ranks count the same samples, but any of them may want to stop.
  sum_over(g, plan, topology::Axis::kTensor, "wish to stop", of("wish to stop", 1, 1));
  if (plan.grid.pipeline() == 1) return;
  sum_over(g, plan, topology::Axis::kData, "losses and weights", of("sums", 0, n));
  // So do pipeline ranks, but losses are in one stage.
  sum_over(g, plan, topology::Axis::kPipeline, "losses and weights, by stage",
           of("sums of stages", 1, n - 1));
}

}  // namespace

void declare_states(Plan& plan) {
  // Written for the sake of the states: a rank that holds nothing of a group must know them, too.
  Graph g(plan.rules.get());
  for (Group& group : plan.groups) {
    g.scope = group.name;
    Part part;
    part.own_elements = part.elements = 1;
    const ValueId v = g.persistent(group.name, make_shape(PLAIT_F32, {1}), {});
    write_part(g, plan, group, part, {v, v}, {g.constant(1), g.constant(1)});
  }
}

std::unique_ptr<Graph> write_update(Plan& plan, const std::vector<Pending>& pending) {
  auto graph = std::make_unique<Graph>(plan.rules.get());
  Graph& g = *graph;
  wait_for_pending(g, pending);
  finish_sums(g, plan);
  // A step counts for all models or for none: what they share, the step number, then means the same to each.
  std::vector<Common> common(plan.models.size());
  std::vector<std::vector<ValueId>> gradients(plan.models.size());
  ValueId finite = 0;
  for (size_t m = 0; m < plan.models.size(); ++m) {
    if (!plan.models[m].trained) continue;
    Gradients own;
    gradients[m] = gradients_of(g, plan, m, own);
    common[m] = write_norm(g, plan, m, own);
    finite = finite ? operator_(g, "and", finite, common[m].finite) : common[m].finite;
  }
  for (size_t m = 0; m < plan.models.size(); ++m) {
    if (!plan.models[m].trained) continue;
    g.bind(finite, plan.models[m].finite);
    common[m].finite = finite;
    write_model(g, plan, m, gradients[m], common[m]);
  }
  return graph;
}

std::unique_ptr<Graph> write_begin(const Plan& plan) {
  auto graph = std::make_unique<Graph>(plan.rules.get());
  auto zero = [&](const std::string& name, const plait_shape& shape, Place place) {
    const ValueId target = graph->persistent(name, shape, place);
    graph->assign(target, program::filled(*graph, shape, 0));
  };
  graph->scope = "begin";
  for (const Group& group : plan.groups) {
    if (group.parts.empty()) continue;
    zero(group.name + ".gradients",
         make_shape(PLAIT_F32, {plan.zero < 2 ? group.elements : group.own_elements}),
         {group.gradients, 0});
  }
  for (const Model& model : plan.models) {
    if (!model.trained) continue;
    zero("loss_sum", kScalar, model.loss_sum);
    zero("weight_sum", kScalar, model.weight_sum);
  }
  return graph;
}

}  // namespace plait::plan
