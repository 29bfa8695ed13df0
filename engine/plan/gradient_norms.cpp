#include "engine/plan/gradient_norms.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <string>

#include "engine/plan/collectives.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/loss_scale.hpp"
#include "engine/plan/loss_weights.hpp"
#include "engine/plan/step_programs.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {
namespace {

using program::attr;
using program::binary;
using program::Graph;
using program::make_shape;
using program::ValueId;

// The sum over the first dimension.
ValueId reduced(Graph& g, ValueId v, const char* kind) {
  return g.apply1("reduce", {v},
                  {attr("kind", std::string(kind)), attr("axes", std::vector<int64_t>{0}),
                   attr("keep", false)});
}

// A number that each rank of an axis has a term of.
ValueId all_reduced(Graph& g, PlanDraft& plan, const std::string& name, topology::Axis axis,
                    ValueId v) {
  if (ranks_of(plan, axis) == 1) return v;
  const int32_t collective = add_collective(plan, name, axis, PLAIT_COMM_ALL_REDUCE);
  return wait_collective(g, collective, start_all_reduce(g, plan, collective, {v}));
}

// A zero that nobody else reads: what is summed over ranks is summed in place.
ValueId fresh_zero(Graph& g, const Plan& plan) {
  return g.append(g.map_op({}, {{PLAIT_MAP_CONST, 0, 0, 0, 0}}, {0}), {scalar_of(plan)})[0];
}

// The same of several numbers, in one collective.
void all_reduce_each(Graph& g, PlanDraft& plan, const std::string& name, topology::Axis axis,
                     std::vector<ValueId>& numbers) {
  if (ranks_of(plan, axis) == 1) return;
  for (ValueId& v : numbers)
    if (!v) v = fresh_zero(g, plan);  // none of these parameters is here
  if (numbers.size() == 1) {
    numbers[0] = all_reduced(g, plan, name, axis, numbers[0]);
    return;
  }
  std::vector<ValueId> parts;
  for (const ValueId v : numbers) parts.push_back(program::reshaped(g, v, {1}));
  const ValueId all =
      all_reduced(g, plan, name, axis, g.apply1("concat", parts, {attr("axis", int64_t{0})}));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const ValueId one = g.apply1(
        "slice", {all}, {attr("axis", int64_t{0}), attr("start", at), attr("stop", at + 1)});
    numbers[i] = program::reshaped(g, one, {});
  }
}

// Σ g² of the gradients of each norm of a model, each counted once: from the sums the micro program
// left, or else from the gradients.
std::vector<ValueId> write_squares(Graph& g, PlanDraft& plan, const Model& model,
                                   const ModelGradients& gradients) {
  const auto add = [&](ValueId a, ValueId b) { return a && b ? binary(g, "add", a, b) : a + b; };
  const auto of = [&](const std::vector<ValueId>& all) {
    ValueId sum = 0;
    for (ValueId v : all)
      sum = add(sum, reduced(g, g.as_type(v, plan.precision.scalar), "sum_squares"));
    return sum;
  };
  const bool left = std::any_of(model.norms.begin(), model.norms.end(),
                                [](const GradientNorm& n) { return n.squares.exists(); });
  std::vector<ValueId> sums, sharded;
  for (size_t i = 0; i < model.norms.size(); ++i) {
    const FlatBuffer& squares = model.norms[i].squares;
    if (squares.exists())
      sums.push_back(
          reduced(g, flat(g, model.name + ".squares", squares, 0, squares.elements), "sum"));
    else
      sums.push_back(left ? 0 : of(gradients.norms[i].replicated));
    sharded.push_back(left ? 0 : of(gradients.norms[i].sharded));
  }
  const std::string name = "squares of " + model.name;
  if (gradients.any_sharded && !left)  // all replicas make the same calls
    all_reduce_each(g, plan, name + ", parts", topology::Axis::kTensor, sharded);
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] = add(sums[i], sharded[i]);
    if (!sums[i]) sums[i] = fresh_zero(g, plan);
  }
  if (left) return sums;
  if (plan.zero > 0) all_reduce_each(g, plan, name, topology::Axis::kData, sums);
  all_reduce_each(g, plan, name + ", by stage", topology::Axis::kPipeline, sums);
  return sums;
}

// Where samples choose their adapter: what the losses are over all samples, with and without an
// adapter. A loss that counts no weight adds nothing.
ValueId mean_loss(Graph& g, const Plan& plan, size_t m) {
  const Model& model = plan.models[m];
  const auto number = [&](const char* name, int64_t i) {
    return g.persistent(name, scalar_of(plan), offset_by(model.mean_sums, i, plan.results.dtype));
  };
  ValueId loss = 0;
  for (int64_t i = 0; i < model.n_means; ++i) {
    const ValueId sum = number("sum", 2 * i), weights = number("weights", 2 * i + 1);
    const auto& losses = plan.experiment.models[m].losses;
    // Terms of the loss, behind the losses, come multiplied.
    const auto at = static_cast<size_t>(i);
    const double factor = at < losses.size() ? losses[at].weight : 1;
    const ValueId counts = binary(g, "lt", g.constant(0), g.apply1("abs", {weights}));
    const ValueId mean = program::scaled(
        g, g.apply1("select", {counts, binary(g, "div", sum, weights), g.constant(0)}), factor);
    loss = loss ? binary(g, "add", loss, mean) : mean;
  }
  return loss;
}

// 1 where the step has a sample of the adapter, so that one of its losses counts something; 0: it
// always has.
ValueId write_active(Graph& g, const Plan& plan, const Model& model, const GradientNorm& norm) {
  ValueId most = 0;
  for (const int64_t i : norm.weights) {
    const ValueId factor = g.persistent("factor", make_shape(plan.loss_weights.dtype, {}),
                                        loss_factor(plan, model, static_cast<size_t>(i)));
    const ValueId size = g.apply1("abs", {factor});
    most = most ? binary(g, "max", most, size) : size;
  }
  return most ? g.bind(binary(g, "lt", g.constant(0), most), norm.active) : 0;
}

}  // namespace

std::vector<StepScale> write_norms(Graph& g, PlanDraft& plan, size_t m,
                                   const ModelGradients& gradients) {
  const Model& model = plan.models[m];
  const plait_shape scalar = scalar_of(plan);
  g.scope = model.name + ".optimizer";
  const std::vector<ValueId> sums = write_squares(g, plan, model, gradients);
  const ValueId loss_sum = g.persistent("loss_sum", scalar, model.loss_sum);
  const ValueId weight_sum = g.persistent("weight_sum", scalar, model.weight_sum);
  const ValueId loss = binary(g, "mul", loss_sum, g.apply1("recip", {weight_sum}));
  const ValueId seed = loss_seed(g, plan);
  const ValueId inverse =
      g.apply1("recip", {seed ? binary(g, "mul", weight_sum, seed) : weight_sum});
  // Weights may be negative, such as advantages, and so may their sum.
  const ValueId size = g.apply1("abs", {inverse});
  const double clip = plan.experiment.models[m].optimizer->clip_grad_norm;
  std::vector<StepScale> scales;
  ValueId finite = 0, all = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const ValueId norm = binary(g, "mul", g.apply1("sqrt", {sums[i]}), size);
    const ValueId is_finite = g.apply1("is_finite", {norm});
    finite = finite ? binary(g, "and", finite, is_finite) : is_finite;
    all = all ? binary(g, "add", all, sums[i]) : sums[i];
    StepScale own{inverse, 0, 0, 0, write_active(g, plan, model, model.norms[i])};
    if (clip > 0) {
      // As everybody defines it: gradients * min(1, clip / (norm + 1e-6)).
      const ValueId ratio =
          binary(g, "div", g.constant(clip), binary(g, "add", norm, g.constant(1e-6)));
      own.scale = binary(g, "mul", inverse, binary(g, "min", g.constant(1), ratio));
    }
    g.bind(norm, model.norms[i].norm);
    scales.push_back(own);
  }
  finite = binary(g, "and", finite, g.apply1("is_finite", {loss}));
  for (StepScale& own : scales) own.finite = finite;
  if (sums.size() > 1) g.bind(binary(g, "mul", g.apply1("sqrt", {all}), size), model.norm);
  g.bind(model.n_means > 0 ? mean_loss(g, plan, m) : loss, model.loss);
  return scales;
}

}  // namespace plait::plan
