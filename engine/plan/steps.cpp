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

// Adds a micro-batch's value to what the step has so far, or sets it when there is only one.
ValueId deliver(Graph& g, const Plan& plan, const std::string& name, ValueId v, Place place) {
  if (!plan.sums_up()) return g.bind(v, place);
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

// What the replicas counted is on its way to what all of them did; finish_sums() waits.
void start_sums(Graph& g, Plan& plan, const std::vector<ValueId>& delivered) {
  std::vector<ValueId> in{flat(g, "sums", plan.votes.segment, 0, plan.n_sums())};
  in.insert(in.end(), delivered.begin(), delivered.end());
  g.scope = "replicas";
  plan.sums_exchange =
      add_exchange(plan, "losses and weights", topology::Axis::kData, PLAIT_COMM_ALL_REDUCE);
  start_all_reduce(g, plan, plan.sums_exchange, std::move(in));
}

// Gradients go out part by part. The backward pass makes the last parameters' first.
void share_gradients(Graph& g, Plan& plan, const std::map<const Parameter*, ValueId>& delivered,
                     int32_t chunk) {
  for (size_t k = 0; k < plan.groups.size(); ++k) {
    Group& group = plan.groups[k];
    g.scope = group.name;
    for (size_t i = group.parts.size(); i-- > 0;) {
      Part& part = group.parts[i];
      if (part.chunk != chunk) continue;
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

// What is needed of a program after it was shared out among the tensor ranks; the ids are exchanged for those of the new one.
class Kept {
 public:
  void keep(ValueId& v, int32_t dim = program::kWhole) {
    at_.push_back(&v);
    wanted_.push_back({v, dim});
  }
  std::unique_ptr<Graph> share(const Plan& plan, std::unique_ptr<Graph> graph,
                               const std::map<ValueId, int32_t>& shared, const AddExchange& add) {
    if (plan.grid.tensor() == 1) return graph;
    const program::Sharers sharers{plan.grid.tensor(), plan.at.tensor,
                                   [&](const std::string& name, uint32_t kind, uint32_t reduction,
                                       uint32_t dtype, uint64_t n) {
                                     Exchange e;
                                     e.name = name;
                                     e.axis = topology::Axis::kTensor;
                                     e.kind = kind;
                                     e.reduction = reduction;
                                     e.dtype = dtype;
                                     e.n = n;
                                     return add(std::move(e));
                                   }};
    std::vector<ValueId> made;
    auto own = program::partition(*graph, shared, sharers, wanted_, made);
    for (size_t i = 0; i < made.size(); ++i) *at_[i] = made[i];
    return own;
  }

 private:
  std::vector<ValueId*> at_;
  std::vector<program::Wanted> wanted_;
};

// The parameters that a program reads, each stage with a value of its own; shared: the values that tensor ranks share.
std::vector<Leaf> leaves_of(Graph& g, Plan& plan, const Tracer& tracer,
                            std::map<ValueId, int32_t>& shared) {
  std::vector<ValueId> values;
  for (const Parameter& p : plan.parameters)
    if (const ValueId v = tracer.parameter_value(p.name)) values.push_back(v);
  const auto split = program::split_leaves(g, values);
  std::vector<Leaf> leaves;
  for (Parameter& p : plan.parameters) {
    const ValueId v = tracer.parameter_value(p.name);
    if (!v) continue;
    for (auto at = split.lower_bound({v, 0}); at != split.end() && at->first.first == v; ++at) {
      leaves.push_back({&p, at->first.second, at->second, 0});
      if (p.split()) shared[at->second] = p.partition;
    }
  }
  return leaves;
}

void differentiate(Graph& g, const std::vector<Tracer::Result>& results,
                   std::vector<Leaf>& leaves) {
  ValueId total = 0;
  for (const auto& r : results)
    if (r.loss_sum) total = total ? program::operator_(g, "add", total, r.loss_sum) : r.loss_sum;
  std::vector<ValueId> targets;
  for (const Leaf& leaf : leaves)
    if (!leaf.parameter->frozen) targets.push_back(leaf.value);
  const auto gradients = program::differentiate(g, total, targets);
  size_t i = 0;
  for (Leaf& leaf : leaves)
    if (!leaf.parameter->frozen) leaf.gradient = gradients[i++];
}

int32_t dim_of(const Parameter& p) { return p.split() ? p.partition : program::kWhole; }

void keep_results(std::vector<Tracer::Result>& results, Kept& kept) {
  for (auto& r : results) {
    kept.keep(r.loss_sum);
    kept.keep(r.weight_sum);
  }
}

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

Written write_training(Plan& plan, Tracer& tracer, Recompute& recompute, const AddExchange& add) {
  Written w;
  w.results = tracer.results();
  w.graph = tracer.take_graph();
  auto shared = tracer.shared();
  w.leaves = leaves_of(*w.graph, plan, tracer, shared);
  differentiate(*w.graph, w.results, w.leaves);
  Kept kept;
  keep_results(w.results, kept);
  for (Leaf& leaf : w.leaves) {
    kept.keep(leaf.gradient, dim_of(*leaf.parameter));
    kept.keep(leaf.value, dim_of(*leaf.parameter));
  }
  w.graph = kept.share(plan, std::move(w.graph), shared, add);
  make_again(*w.graph, recompute);
  return w;
}

Written write_evaluation(Plan& plan, Tracer& tracer, const AddExchange& add) {
  Written w;
  w.results = tracer.results();
  w.states = tracer.metric_states();
  w.outputs = tracer.outputs();
  w.graph = tracer.take_graph();
  std::erase_if(w.outputs, [&](const auto& o) {  // not one row per sample
    const plait_shape& shape = w.graph->shape(o.second);
    return shape.rank < 1 || shape.dims[0] != plan.eval_feed.batch;
  });
  auto shared = tracer.shared();
  w.leaves = leaves_of(*w.graph, plan, tracer, shared);
  Kept kept;
  keep_results(w.results, kept);
  for (auto& s : w.states) kept.keep(s.state);
  for (auto& o : w.outputs) kept.keep(o.second);
  for (Leaf& leaf : w.leaves) kept.keep(leaf.value, dim_of(*leaf.parameter));
  w.graph = kept.share(plan, std::move(w.graph), shared, add);
  return w;
}

int32_t stage_of(const Graph& g, ValueId v) {
  const int32_t producer = g.value(v).producer;
  return producer < 0 ? 0 : g.ops()[static_cast<size_t>(producer)].stage;
}

std::vector<program::Delivery> deliveries_of(const Written& w) {
  std::vector<program::Delivery> all;
  const auto add = [&](ValueId v) {
    if (v) all.push_back({v, stage_of(*w.graph, v)});
  };
  for (const auto& r : w.results) {
    add(r.loss_sum);
    add(r.weight_sum);
  }
  for (const auto& s : w.states) add(s.state);
  for (const auto& o : w.outputs) add(o.second);
  for (const Leaf& leaf : w.leaves)
    if (leaf.gradient) all.push_back({leaf.gradient, leaf.stage});
  return all;
}

namespace {

// What is delivered of the losses.
std::vector<ValueId> deliver_sums(Plan& plan, const Written& w, const Here& here) {
  Graph& g = here.graph;
  std::vector<ValueId> sums;
  for (size_t m = 0; m < plan.models.size(); ++m) {
    const Model& model = plan.models[m];
    if (!model.trained) continue;
    const auto add = [&](const char* name, ValueId v, Place place) {
      if (const ValueId own = here.delivered(v, stage_of(*w.graph, v)))
        sums.push_back(deliver(g, plan, name, own, place));
    };
    add("loss_sum", w.results[m].loss_sum, model.loss_sum);
    add("weight_sum", w.results[m].weight_sum, model.weight_sum);
  }
  return sums;
}

void gather_leaves(Plan& plan, const Written& w, const Here& here) {
  if (plan.zero < 3) return;
  std::map<const Parameter*, ValueId> values;
  for (const Leaf& leaf : w.leaves)
    if (const ValueId v = here.read(leaf)) values[leaf.parameter] = v;
  if (!values.empty()) gather_parameters(here.graph, plan, values);
}

}  // namespace

void deliver_training(Plan& plan, const Written& w, const Here& here) {
  Graph& g = here.graph;
  const std::vector<ValueId> sums = deliver_sums(plan, w, here);
  std::map<const Parameter*, ValueId> delivered;
  for (const Leaf& leaf : w.leaves) {
    const ValueId own = leaf.gradient ? here.delivered(leaf.gradient, leaf.stage) : 0;
    if (!own) continue;
    Parameter& p = *leaf.parameter;
    delivered[&p] = plan.zero < 2 ? deliver(g, plan, p.name + ".gradient", own, p.gradient) : own;
    if (!plan.sums_up() && plan.grid.ranks() == 1) deliver_squares(g, plan, p, own);
  }
  const bool shares = here.last && plan.grid.data() > 1;
  // Pipeline ranks add up their sums when all is done: see write_update().
  if (shares && plan.grid.pipeline() == 1) start_sums(g, plan, sums);
  if (plan.zero >= 2)
    scatter_gradients(g, plan, delivered);
  else if (shares)
    share_gradients(g, plan, delivered, here.chunk);
  gather_leaves(plan, w, here);
}

void place_evaluation(Plan& plan, const Written& w) {
  const int32_t segment = plan.storage.add("evaluation", Category::kResults);
  const auto place = [&](ValueId v) {
    return plan.storage.take(segment, program::bytes(w.graph->shape(v)));
  };
  for (const auto& s : w.states) plan.metrics.push_back({s.name, s.item, place(s.state)});
  for (const auto& [name, v] : w.outputs)
    plan.outputs.push_back({name, w.graph->shape(v), place(v),
                            plan.pipeline.schedule.shape.rank_of(stage_of(*w.graph, v))});
}

void deliver_evaluation(Plan& plan, const Written& w, const Here& here) {
  const auto bind = [&](ValueId v, Place place) {
    if (const ValueId own = v ? here.delivered(v, stage_of(*w.graph, v)) : 0)
      here.graph.bind(own, place);
  };
  for (size_t m = 0; m < plan.models.size(); ++m) {
    bind(w.results[m].loss_sum, plan.models[m].eval_loss_sum);
    bind(w.results[m].weight_sum, plan.models[m].eval_weight_sum);
  }
  for (size_t i = 0; i < w.states.size(); ++i) bind(w.states[i].state, plan.metrics[i].state);
  for (size_t i = 0; i < w.outputs.size(); ++i) bind(w.outputs[i].second, plan.outputs[i].place);
  gather_leaves(plan, w, here);
}

void sum_over(Graph& g, Plan& plan, topology::Axis axis, const std::string& name, ValueId v) {
  if (ranks_of(plan, axis) == 1) return;
  const int32_t exchange = add_exchange(plan, name, axis, PLAIT_COMM_ALL_REDUCE);
  wait_exchange(g, exchange, start_all_reduce(g, plan, exchange, {v}));
}

void wait_for_pending(Graph& g, const std::vector<Pending>& pending) {
  g.scope = "stages";
  for (const Pending& p : pending)
    for (int32_t slot = 0; slot < p.slots; ++slot)
      wait_for_slot(g, p.exchange, g.persistent("sent", p.shape, p.place), slot);
}

std::unique_ptr<Graph> write_outputs(Plan& plan) {
  auto graph = std::make_unique<Graph>(plan.rules.get());
  graph->scope = "stages";
  for (const Named& n : plan.outputs) {
    const int32_t id = add_exchange(plan, "value '" + n.name + "'", topology::Axis::kPipeline,
                                    PLAIT_COMM_BROADCAST);
    plan.exchanges[static_cast<size_t>(id)].peer = static_cast<uint32_t>(n.owner);
    const ValueId v = graph->persistent(n.name, n.shape, n.place);
    wait_exchange(*graph, id, start_broadcast(*graph, plan, id, v));
  }
  return graph;
}

std::unique_ptr<Graph> write_total(Plan& plan, const std::vector<Pending>& pending) {
  auto graph = std::make_unique<Graph>(plan.rules.get());
  wait_for_pending(*graph, pending);
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
  sum_over(*graph, plan, topology::Axis::kPipeline, "figures of an evaluation, by stage", totals);
  return graph;
}

}  // namespace plait::plan
