#include "engine/plan/steps.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "engine/plan/exchange.hpp"
#include "engine/plan/zero.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/partition.hpp"
#include "engine/program/recompute.hpp"
#include "engine/program/rule.hpp"

namespace plait::plan {

using program::attr;
using program::Graph;
using program::make_shape;
using program::ValueId;

ValueId flat(Graph& g, const std::string& name, int32_t segment, int64_t first, int64_t n) {
  return g.persistent(name, make_shape(PLAIT_F32, {n}),
                      {segment, static_cast<uint64_t>(first) * 4});
}

namespace {

// Adds a micro-batch's value to what the step has so far, or sets it when there is only one micro-batch.
ValueId deliver(Graph& g, const Plan& plan, const std::string& name, ValueId v, Place place) {
  if (plan.accumulation == 1) return g.bind(v, place);
  const ValueId sum = g.persistent(name, g.shape(v), place);
  return g.assign(sum, program::operator_(g, "add", sum, v));
}

// A gradient that is complete when it is made is squared and summed there, so that the norm need not read all of them again.
void deliver_squares(Graph& g, Plan& plan, Parameter& p, ValueId gradient) {
  auto model = std::find_if(plan.models.begin(), plan.models.end(),
                            [&](const Model& m) { return m.name == p.model; });
  if (model->squares < 0)
    model->squares = plan.storage.add(p.model + ".squares", Category::kResults);
  if (p.squares.segment < 0) p.squares = plan.storage.take(model->squares, 4, 4);
  std::vector<int64_t> axes(g.shape(gradient).rank);
  std::iota(axes.begin(), axes.end(), 0);
  g.scope = p.model + ".optimizer";
  g.bind(
      g.apply1("reduce", {gradient},
               {attr("kind", std::string("sum_squares")), attr("axes", axes), attr("keep", false)}),
      p.squares);
}

// What the replicas counted becomes what all of them did.
void share_sums(Graph& g, Plan& plan, const std::vector<ValueId>& delivered) {
  int64_t n = 2;
  for (const Model& m : plan.models) n += m.trained ? 2 : 0;
  std::vector<ValueId> in{flat(g, "sums", plan.votes.segment, 0, n)};
  in.insert(in.end(), delivered.begin(), delivered.end());
  g.scope = "replicas";
  plan.sums_exchange =
      add_exchange(plan, "losses and weights", topology::Axis::kData, PLAIT_COMM_ALL_REDUCE);
  start_all_reduce(g, plan, plan.sums_exchange, std::move(in));
}

// Gradients go out part by part. The backward pass makes the last parameters' first.
void share_gradients(Graph& g, Plan& plan, const std::map<const Parameter*, ValueId>& delivered) {
  for (size_t k = 0; k < plan.groups.size(); ++k) {
    Group& group = plan.groups[k];
    g.scope = group.name;
    for (size_t i = group.parts.size(); i-- > 0;) {
      Part& part = group.parts[i];
      const std::string name = "gradients of " + group.name + ", part " + std::to_string(i);
      std::vector<ValueId> in{flat(g, name, group.gradients, part.begin, part.elements)};
      for (const auto& [p, v] : delivered) {
        if (p->group == static_cast<int32_t>(k) && p->flat >= part.begin &&
            p->flat < part.begin + part.elements)
          in.push_back(v);
      }
      const bool scatter = part.own_elements != part.elements;
      part.reduce = add_exchange(plan, name, topology::Axis::kData,
                                 scatter ? PLAIT_COMM_REDUCE_SCATTER : PLAIT_COMM_ALL_REDUCE);
      if (scatter)
        start_reduce_scatter(g, plan, part.reduce, std::move(in),
                             {group.gradients, static_cast<uint64_t>(part.own_begin) * 4});
      else
        start_all_reduce(g, plan, part.reduce, std::move(in));
    }
  }
}

}  // namespace

namespace {

// What is needed of a program after it was cut up for the tensor ranks; the ids are exchanged for those of the new one.
class Kept {
 public:
  void keep(ValueId& v, int32_t dim = program::kWhole) {
    at_.push_back(&v);
    wanted_.push_back({v, dim});
  }
  std::unique_ptr<Graph> cut(Plan& plan, std::unique_ptr<Graph> graph,
                             const std::map<ValueId, int32_t>& shared) {
    if (plan.grid.tensor() == 1) return graph;
    const program::Sharers sharers{
        plan.grid.tensor(), plan.at.tensor,
        [&](const std::string& name, uint32_t kind, uint32_t reduction, uint32_t dtype,
            uint64_t n) {
          plan.exchanges.push_back({name, topology::Axis::kTensor, kind, reduction, dtype, n});
          return static_cast<int32_t>(plan.exchanges.size() - 1);
        }};
    std::vector<ValueId> made;
    auto cut = program::partition(*graph, shared, sharers, wanted_, made);
    for (size_t i = 0; i < made.size(); ++i) *at_[i] = made[i];
    return cut;
  }

 private:
  std::vector<ValueId*> at_;
  std::vector<program::Wanted> wanted_;
};

// A trained parameter that a program reads, and its gradient; 0: no loss depends on it.
struct Trained {
  Parameter* parameter;
  ValueId gradient;
};

// The values of all parameters in a program, by then cut up.
class ParameterValues {
 public:
  ParameterValues(const Plan& plan, const Tracer& tracer, Kept& kept) {
    if (plan.zero < 3) return;
    for (const Parameter& p : plan.parameters) values_[&p] = tracer.parameter_value(p.name);
    for (auto& [p, v] : values_) kept.keep(v, p->split() ? p->partition : program::kWhole);
  }
  void gather(Graph& g, Plan& plan) {
    if (!values_.empty()) gather_parameters(g, plan, values_);
  }

 private:
  std::map<const Parameter*, ValueId> values_;
};

std::vector<Trained> differentiated(Graph& g, Plan& plan, const Tracer& tracer,
                                    const std::vector<Tracer::Result>& results) {
  ValueId total = 0;
  for (const auto& r : results)
    if (r.loss_sum) total = total ? program::operator_(g, "add", total, r.loss_sum) : r.loss_sum;
  std::vector<ValueId> targets;
  std::vector<Trained> trained;
  for (Parameter& p : plan.parameters)
    if (const auto v = tracer.parameter_value(p.name); v && p.group >= 0) {
      targets.push_back(v);
      trained.push_back({&p, 0});
    }
  const auto gradients = program::differentiate(g, total, targets);
  for (size_t i = 0; i < trained.size(); ++i) trained[i].gradient = gradients[i];
  return trained;
}

}  // namespace

namespace {

// Values that cost little for their size go first. Of those that cost the same every second one, then every second one of the rest:
// what stays between them keeps short what is made again at once.
void cheapest_first(std::vector<program::Saved>& saved, size_t count) {
  const auto price = [](const program::Saved& s) {
    return s.flops / static_cast<double>(std::max<uint64_t>(s.bytes, 1));
  };
  std::stable_sort(saved.begin(), saved.end(),
                   [&](const auto& a, const auto& b) { return price(a) < price(b); });
  for (size_t begin = 0, end = 0; begin < saved.size(); begin = end) {
    while (end < saved.size() && price(saved[end]) <= price(saved[begin]) * 1.01) ++end;
    std::vector<std::pair<int, program::Saved>> same;
    for (size_t i = begin; i < end; ++i)
      same.emplace_back(std::countr_zero(i - begin + 1), saved[i]);
    std::stable_sort(same.begin(), same.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = begin; i < end; ++i) saved[i] = same[i - begin].second;
  }
  saved.resize(std::min(saved.size(), count));
}

void make_again(Graph& g, Recompute& recompute) {
  if (recompute.mode == "none") return;
  std::vector<program::Saved> saved = program::saved_values(g);
  recompute.candidates = saved.size();
  if (recompute.mode == "layer")
    std::erase_if(saved, [](const program::Saved& s) { return !s.inside; });
  if (recompute.mode == "budget") cheapest_first(saved, recompute.cheapest);
  std::vector<ValueId> dropped;
  for (const program::Saved& s : saved) dropped.push_back(s.value);
  program::recompute(g, dropped, recompute.mode == "layer");
}

}  // namespace

std::unique_ptr<Graph> write_micro(Plan& plan, Tracer& tracer, const Context& context, bool last,
                                   Recompute& recompute) {
  auto results = tracer.results();
  std::unique_ptr<Graph> graph = tracer.take_graph();
  std::vector<Trained> trained = differentiated(*graph, plan, tracer, results);
  Kept kept;
  for (auto& r : results) {
    kept.keep(r.loss_sum);
    kept.keep(r.weight_sum);
  }
  for (Trained& t : trained)
    kept.keep(t.gradient, t.parameter->split() ? t.parameter->partition : program::kWhole);
  ParameterValues values(plan, tracer, kept);
  graph = kept.cut(plan, std::move(graph), tracer.shared());
  Graph& g = *graph;
  make_again(g, recompute);

  std::vector<ValueId> sums;
  for (size_t m = 0; m < plan.models.size(); ++m) {
    const Model& model = plan.models[m];
    if (!model.trained) continue;
    sums.push_back(deliver(g, plan, "loss_sum", results[m].loss_sum, model.loss_sum));
    sums.push_back(deliver(g, plan, "weight_sum", results[m].weight_sum, model.weight_sum));
  }
  const bool replicated = plan.grid.data() > 1;
  std::map<const Parameter*, ValueId> delivered;
  for (const Trained& t : trained) {
    Parameter& p = *t.parameter;
    if (t.gradient) {
      delivered[&p] = plan.zero < 2 ? deliver(g, plan, p.name + ".gradient", t.gradient, p.gradient)
                                    : t.gradient;
      if (plan.accumulation == 1 && plan.grid.ranks() == 1) deliver_squares(g, plan, p, t.gradient);
    } else if (context.log && last && recompute.cheapest == 0) {
      context.log->warn("[plan] no loss depends on parameter '" + p.name +
                        "'; only weight decay will change it");
    }
  }
  if (last && replicated) share_sums(g, plan, sums);
  if (plan.zero >= 2)
    scatter_gradients(g, plan, delivered);
  else if (last && replicated)
    share_gradients(g, plan, delivered);
  values.gather(g, plan);
  return graph;
}

std::unique_ptr<Graph> write_evaluate(Plan& plan, Tracer& tracer) {
  auto results = tracer.results();
  auto states = tracer.metric_states();
  auto outputs = tracer.outputs();
  std::unique_ptr<Graph> graph = tracer.take_graph();
  std::erase_if(outputs, [&](const auto& o) {  // not one row per sample
    const plait_shape& shape = graph->shape(o.second);
    return shape.rank < 1 || shape.dims[0] != plan.eval_feed.batch;
  });
  Kept kept;
  for (auto& r : results) {
    kept.keep(r.loss_sum);
    kept.keep(r.weight_sum);
  }
  for (auto& s : states) kept.keep(s.state);
  for (auto& o : outputs) kept.keep(o.second);
  ParameterValues values(plan, tracer, kept);
  graph = kept.cut(plan, std::move(graph), tracer.shared());
  Graph& g = *graph;

  const int32_t segment = plan.storage.add("evaluation", Category::kResults);
  for (size_t m = 0; m < plan.models.size(); ++m) {
    if (!results[m].loss_sum) continue;
    g.bind(results[m].loss_sum, plan.models[m].eval_loss_sum);
    g.bind(results[m].weight_sum, plan.models[m].eval_weight_sum);
  }
  for (const auto& s : states) {
    plan.metrics.push_back(
        {s.name, s.item, plan.storage.take(segment, program::bytes(g.shape(s.state)))});
    g.bind(s.state, plan.metrics.back().state);
  }
  for (const auto& [name, v] : outputs) {
    const plait_shape shape = g.shape(v);
    plan.outputs.push_back({name, shape, plan.storage.take(segment, program::bytes(shape))});
    g.bind(v, plan.outputs.back().place);
  }
  values.gather(g, plan);
  return graph;
}

void sum_over(Graph& g, Plan& plan, topology::Axis axis, const std::string& name, ValueId v) {
  if (ranks_of(plan, axis) == 1) return;
  const int32_t exchange = add_exchange(plan, name, axis, PLAIT_COMM_ALL_REDUCE);
  wait_exchange(g, exchange, start_all_reduce(g, plan, exchange, {v}));
}

std::unique_ptr<Graph> write_total(Plan& plan) {
  auto graph = std::make_unique<Graph>(plan.rules.get());
  graph->scope = "replicas";
  plan.n_totals = 2 + 2 * static_cast<int64_t>(plan.models.size());
  for (const Metric& m : plan.metrics) plan.n_totals += m.item->n_state;
  const int32_t segment = plan.storage.add("totals", Category::kResults);
  plan.totals = plan.storage.take(segment, static_cast<uint64_t>(plan.n_totals) * 8);
  const ValueId totals =
      graph->persistent("totals", make_shape(PLAIT_F64, {plan.n_totals}), plan.totals);
  // Tensor ranks count the same samples, but any of them may want to stop.
  const ValueId wish = graph->persistent("wish to stop", make_shape(PLAIT_F64, {1}),
                                         {plan.totals.segment, plan.totals.offset + 8});
  sum_over(*graph, plan, topology::Axis::kTensor, "wish to stop", wish);
  sum_over(*graph, plan, topology::Axis::kData, "figures of an evaluation", totals);
  return graph;
}

}  // namespace plait::plan
