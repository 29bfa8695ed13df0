// The update program: one element-wise pass over each group's flat shard. N elements of a group.
#include <algorithm>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/plan/compile.hpp"
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

ValueId flat(Graph& g, const std::string& name, int64_t n, int32_t segment) {
  return g.persistent(name, make_shape(PLAIT_F32, {n}), {segment, 0});
}

// What all groups of a model need: the factor on every gradient, and whether this step may be applied.
struct Common {
  ValueId scale, finite;
};

// Σ g² of all gradients of a model: from the sums the micro program left, or else from the gradients.
ValueId write_squares(Graph& g, const Plan& plan, const Model& model,
                      const std::vector<ValueId>& gradients) {
  const auto folded = [&](ValueId v, const char* kind) {
    return g.apply1("reduce", {v},
                    {attr("kind", std::string(kind)), attr("axes", std::vector<int64_t>{0}),
                     attr("keep", false)});
  };
  if (model.squares >= 0) {
    const auto& segment = plan.storage.segments()[static_cast<size_t>(model.squares)];
    return folded(
        flat(g, model.name + ".squares", static_cast<int64_t>(segment.bytes / 4), model.squares),
        "sum");
  }
  ValueId sum = 0;
  for (ValueId v : gradients) {
    const ValueId s = folded(v, "sum_squares");
    sum = sum ? operator_(g, "add", sum, s) : s;
  }
  return sum;
}

Common write_norm(Graph& g, Plan& plan, size_t m, const std::vector<ValueId>& gradients) {
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

void write_group(Graph& g, Plan& plan, Group& group, ValueId gradient, const Common& common) {
  const config::OptimizerConfig& config =
      *plan.experiment.models[static_cast<size_t>(group.model)].optimizer;
  const plait_optimizer_item& item = plan.registry->optimizer(config.type);
  g.scope = group.name;
  const ValueId parameter = flat(g, group.name + ".parameters", group.elements, group.parameters);
  std::vector<ValueId> current, next;
  program::BuildHooks hooks;
  hooks.training = true;
  hooks.state = [&](const std::string& name, double initial) {
    for (size_t i = 0; i < group.states.size(); ++i)
      if (group.states[i].name == name) return current[i];
    const int32_t segment = plan.storage.add(group.name + "." + name, Category::kOptimizer);
    plan.storage.take(segment, static_cast<uint64_t>(group.elements) * 4);
    group.states.push_back({name, initial, segment});
    current.push_back(flat(g, group.name + "." + name, group.elements, segment));
    next.push_back(0);
    return current.back();
  };
  hooks.set_state = [&](const std::string& name, ValueId v) {
    for (size_t i = 0; i < group.states.size(); ++i) {
      if (group.states[i].name != name) continue;
      next[i] = v;
      return;
    }
    fail_invalid("[" + g.scope + "] set_state('" + name + "') before state('" + name + "')");
  };
  program::CBuilder builder(g, hooks);
  const plait_update update{sizeof(plait_update),
                            parameter,
                            operator_(g, "mul", gradient, common.scale),
                            g.persistent("rate", kScalar, group.rate_at),
                            g.persistent("factor", kScalar, group.factor_at),
                            g.persistent("step", kScalar, plan.step),
                            g.constant(group.decay)};
  ValueId out = 0;
  check_plugin(item.build(builder.get(), &config.options, &update, &out),
               plan.registry->plugin_of(&item),
               "building optimizer '" + config.type + "' (" + config.origin.text() + ")");
  if (out == 0)
    fail(PLAIT_ERR_PLUGIN,
         "[plugin " + plan.registry->plugin_of(&item) + "] optimizer left the parameter unset");
  // A step that is not finite changes nothing, on every rank alike.
  auto apply = [&](ValueId target, ValueId v) {
    g.assign(target, g.apply1("select", {common.finite, v, target}));
  };
  apply(parameter, out);
  for (size_t i = 0; i < group.states.size(); ++i)
    if (next[i]) apply(current[i], next[i]);
}

}  // namespace

std::unique_ptr<Graph> write_update(Plan& plan) {
  auto graph = std::make_unique<Graph>(plan.rules.get());
  // A step counts for all models or for none: what they share, the step number, then means the same to each.
  std::vector<Common> common(plan.models.size());
  std::vector<std::vector<ValueId>> gradients(plan.models.size());
  ValueId finite = 0;
  for (size_t m = 0; m < plan.models.size(); ++m) {
    if (!plan.models[m].trained) continue;
    for (const Group& group : plan.groups)
      if (group.model == static_cast<int32_t>(m))
        gradients[m].push_back(
            flat(*graph, group.name + ".gradients", group.elements, group.gradients));
    common[m] = write_norm(*graph, plan, m, gradients[m]);
    finite = finite ? operator_(*graph, "and", finite, common[m].finite) : common[m].finite;
  }
  for (size_t m = 0; m < plan.models.size(); ++m) {
    if (!plan.models[m].trained) continue;
    graph->bind(finite, plan.models[m].finite);
    common[m].finite = finite;
    size_t k = 0;
    for (Group& group : plan.groups)
      if (group.model == static_cast<int32_t>(m))
        write_group(*graph, plan, group, gradients[m][k++], common[m]);
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
  for (const Group& group : plan.groups)
    zero(group.name + ".gradients", make_shape(PLAIT_F32, {group.elements}), {group.gradients, 0});
  for (const Model& model : plan.models) {
    if (!model.trained) continue;
    zero("loss_sum", kScalar, model.loss_sum);
    zero("weight_sum", kScalar, model.weight_sum);
  }
  return graph;
}

}  // namespace plait::plan
