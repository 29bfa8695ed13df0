#include "engine/plan/plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/data/order.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/rule.hpp"

namespace plait::plan {

using program::attr;
using program::make_shape;

const Dataset* Plan::dataset(const std::string& name) const {
  for (const auto& d : datasets)
    if (d->name() == name) return d.get();
  return nullptr;
}

const Parameter* Plan::parameter(const std::string& name) const {
  for (const Parameter& p : parameters)
    if (p.name == name) return &p;
  return nullptr;
}

uint64_t Plan::hash() const {
  Hasher h;
  for (const Parameter& p : parameters)
    h.update(p.name + program::text(p.shape) + std::to_string(p.group));
  for (const Group& g : groups) {
    h.update(g.name);
    for (const State& s : g.states) h.update(s.name);
  }
  return h.digest64();
}

namespace {

const plait_shape kScalar = {PLAIT_F32, 0, {}};

void choose_device(Plan& plan, const Context& context, config::Problems& problems) {
  plan.device = plan.experiment.run.device;
  if (plan.device == "auto") {
    plan.device.clear();
    int32_t best = INT32_MIN;
    for (const std::string& name : plan.registry->devices()) {
      const plait_device_item& item = plan.registry->device(name);
      if (item.rank <= best) continue;
      best = item.rank;
      plan.device = name;
    }
    if (plan.device.empty())
      fail_not_found("[plan] no device plugin is loaded; " + plan.registry->load_summary());
  }
  const plait_device_item& item = plan.registry->device(plan.device);
  plan.device_options = config::device_options(plan.experiment, *plan.registry, plan.device,
                                               context.resolver, problems);
  plan.threads = std::max(1u, item.threads(&plan.device_options));
}

void open_datasets(Plan& plan, const Context& context) {
  for (const auto& d : plan.experiment.datasets) {
    try {
      plan.datasets.push_back(std::make_shared<Dataset>(d, *plan.registry));
    } catch (const Error& e) {
      const std::string missing = d.options.missing_paths(context.resolver);
      if (missing.empty()) throw;
      throw Error(e.code(), missing, std::make_shared<const Error>(e));
    }
  }
}

void count_steps(Plan& plan) {
  const auto& run = plan.experiment.run;
  const auto& batch = plan.experiment.batch;
  plan.accumulation = batch.global / (batch.micro * plan.experiment.topology.data);
  plan.total_steps = run.steps;
  const Dataset* train = plan.dataset("train");
  if (run.epochs > 0 && train) {
    int64_t n = train->info().n_samples;
    if (const auto* c = plan.experiment.dataset("train"); c->limit > 0) n = std::min(n, c->limit);
    plan.total_steps = run.epochs * data::batches_per_epoch(n, batch.global);
  }
}

void make_results(Plan& plan) {
  const int32_t results = plan.storage.add("results", Category::kResults);
  for (const auto& m : plan.experiment.models) {
    Model model;
    model.name = m.name;
    model.trained = !m.frozen && !m.losses.empty();
    for (Place* p : {&model.loss_sum, &model.weight_sum, &model.loss, &model.norm, &model.finite,
                     &model.eval_loss_sum, &model.eval_weight_sum})
      *p = plan.storage.take(results, 4, 4);
    plan.models.push_back(model);
  }
}

Feed make_feed(Plan& plan, const std::string& name, int64_t batch) {
  Feed feed;
  feed.batch = batch;
  const int32_t segment = plan.storage.add(name, Category::kInputs);
  feed.weight = plan.storage.take(segment, static_cast<uint64_t>(batch) * 4);
  return feed;
}

// Adds a micro-batch's value to what the step has so far, or sets it when there is only one micro-batch.
void deliver(program::Graph& g, const Plan& plan, const std::string& name, program::ValueId v,
             Place place) {
  if (plan.accumulation == 1) {
    g.bind(v, place);
    return;
  }
  const program::ValueId sum = g.persistent(name, g.shape(v), place);
  g.assign(sum, program::operator_(g, "add", sum, v));
}

// A gradient that is complete when it is made is squared and summed there, so that the norm need not read all of them again.
void deliver_squares(program::Graph& g, Plan& plan, const Parameter& p, program::ValueId gradient) {
  auto model = std::find_if(plan.models.begin(), plan.models.end(),
                            [&](const Model& m) { return m.name == p.model; });
  if (model->squares < 0)
    model->squares = plan.storage.add(p.model + ".squares", Category::kResults);
  std::vector<int64_t> axes(g.shape(gradient).rank);
  std::iota(axes.begin(), axes.end(), 0);
  g.scope = p.model + ".optimizer";
  g.bind(
      g.apply1("reduce", {gradient},
               {attr("kind", std::string("sum_squares")), attr("axes", axes), attr("keep", false)}),
      plan.storage.take(model->squares, 4, 4));
}

std::unique_ptr<program::Graph> write_micro(Plan& plan, const Context& context) {
  const Dataset* train = plan.dataset("train");
  Tracer tracer(plan, plan.train_feed, *train, *plan.experiment.dataset("train"), true);
  tracer.run();
  program::Graph& g = tracer.graph();
  program::ValueId total = 0;
  for (const auto& r : tracer.results())
    if (r.loss_sum) total = total ? program::operator_(g, "add", total, r.loss_sum) : r.loss_sum;
  std::vector<program::ValueId> targets;
  std::vector<const Parameter*> trained;
  for (const Parameter& p : plan.parameters)
    if (const auto v = tracer.parameter_value(p.name); v && p.group >= 0) {
      targets.push_back(v);
      trained.push_back(&p);
    }
  const auto gradients = program::differentiate(g, total, targets);
  for (size_t m = 0; m < plan.models.size(); ++m) {
    if (!plan.models[m].trained) continue;
    deliver(g, plan, "loss_sum", tracer.results()[m].loss_sum, plan.models[m].loss_sum);
    deliver(g, plan, "weight_sum", tracer.results()[m].weight_sum, plan.models[m].weight_sum);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (gradients[i]) {
      deliver(g, plan, trained[i]->name + ".gradient", gradients[i], trained[i]->gradient);
      if (plan.accumulation == 1) deliver_squares(g, plan, *trained[i], gradients[i]);
    } else if (context.log)
      context.log->warn("[plan] no loss depends on parameter '" + trained[i]->name +
                        "'; only weight decay will change it");
  }
  return tracer.take_graph();
}

std::unique_ptr<program::Graph> write_evaluate(Plan& plan) {
  const Dataset* data = plan.dataset("eval") ? plan.dataset("eval") : plan.dataset("train");
  Tracer tracer(plan, plan.eval_feed, *data, *plan.experiment.dataset(data->name()), false);
  tracer.run();
  program::Graph& g = tracer.graph();
  const int32_t segment = plan.storage.add("evaluation", Category::kResults);
  for (size_t m = 0; m < plan.models.size(); ++m) {
    const auto& r = tracer.results()[m];
    if (!r.loss_sum) continue;
    g.bind(r.loss_sum, plan.models[m].eval_loss_sum);
    g.bind(r.weight_sum, plan.models[m].eval_weight_sum);
  }
  for (const auto& s : tracer.metric_states()) {
    plan.metrics.push_back(
        {s.name, s.item, plan.storage.take(segment, program::bytes(g.shape(s.state)))});
    g.bind(s.state, plan.metrics.back().state);
  }
  for (const auto& [name, v] : tracer.outputs()) {
    const plait_shape& shape = g.shape(v);
    if (shape.rank < 1 || shape.dims[0] != plan.eval_feed.batch)
      continue;  // not one row per sample
    plan.outputs.push_back({name, shape, plan.storage.take(segment, program::bytes(shape))});
    g.bind(v, plan.outputs.back().place);
  }
  return tracer.take_graph();
}

void make_scalars(Plan& plan, int32_t segment) {
  for (Group& g : plan.groups) {
    g.elements =
        static_cast<int64_t>(plan.storage.segments()[static_cast<size_t>(g.parameters)].bytes / 4);
    g.elements = (g.elements + 15) / 16 * 16;  // as lay_out() rounds the segment up
    g.rate_at = plan.storage.take(segment, 4, 4);
    g.factor_at = plan.storage.take(segment, 4, 4);
  }
}

// Pattern lists that match nothing are mistakes that would otherwise stay unseen.
void check_groups(const Plan& plan, config::Problems& problems) {
  for (const auto& model : plan.experiment.models) {
    if (!model.optimizer) continue;
    for (const auto& group : model.optimizer->groups)
      for (const auto& pattern : group.match) {
        std::vector<std::string> names;
        for (const auto& p : plan.parameters)
          if (p.model == model.name) names.push_back(p.name);
        if (std::none_of(names.begin(), names.end(),
                         [&](const auto& n) { return glob_match(pattern, n); }))
          problems.add(
              group.origin, group.path,
              "pattern '" + pattern + "' matches no parameter of model '" + model.name + "'",
              "the parameters are: " + join(names));
      }
  }
}

void explain(const Plan& plan, Log* log) {
  const char* wanted = std::getenv("PLAIT_EXPLAIN");
  if (!log || !wanted || std::string_view(wanted) != "1") return;
  for (const Program* p : {&plan.begin, &plan.micro, &plan.update, &plan.evaluate})
    for (const Call& c : p->calls) {
      const program::Op& op = p->graph->ops()[static_cast<size_t>(c.op)];
      log->info("[explain] " + p->name + " " + op.scope + " " + op.name + " " +
                program::text(p->graph->shape(op.out[0])) + ": " + c.kernel->name +
                (c.detail.empty() ? "" : " (" + c.detail + ")") +
                (c.refused.empty() ? "" : "; refused: " + c.refused));
    }
}

// An entry's failure as a problem of the file: its text begins with "file:line:column: path: ".
void add_problem(const config::Experiment& e, const Error& error, config::Problems& problems) {
  auto add = [&](const config::ItemConfig& item) {
    const std::string head = item.origin.text() + ": " + item.path + ": ";
    if (!starts_with(error.text(), head)) return false;
    problems.add(item.origin, item.path, error.full_text().substr(head.size()));
    return true;
  };
  for (const auto& m : e.models) {
    for (const auto& l : m.layers)
      if (add(l)) return;
    for (const auto& l : m.losses)
      if (add(l)) return;
    for (const auto& l : m.metrics)
      if (add(l)) return;
  }
  throw error;
}

}  // namespace

std::unique_ptr<Plan> make_plan(const config::Experiment& experiment, const Context& context,
                                config::Problems& problems) {
  auto plan = std::make_unique<Plan>();
  plan->experiment = experiment;
  plan->registry = context.registry;
  plan->rules = std::make_unique<program::RuleBook>(*plan->registry);
  const auto& topology = experiment.topology;
  if (topology.data * topology.tensor * topology.pipeline != 1)
    fail(
        PLAIT_ERR_UNIMPLEMENTED,
        strf(
            "[topology] data=%ld tensor=%ld pipeline=%ld asks for %ld ranks; this version runs one",
            static_cast<long>(topology.data), static_cast<long>(topology.tensor),
            static_cast<long>(topology.pipeline),
            static_cast<long>(topology.data * topology.tensor * topology.pipeline)));
  choose_device(*plan, context, problems);
  open_datasets(*plan, context);
  if (!plan->dataset("train"))
    fail_config("[data] there is no [data.train]; it also tells the shapes of what a host feeds");
  count_steps(*plan);

  const int32_t scalars = plan->storage.add("scalars", Category::kInputs);
  plan->counter = plan->storage.take(scalars, 16);
  plan->step = plan->storage.take(scalars, 4, 4);
  make_results(*plan);
  if (std::none_of(plan->models.begin(), plan->models.end(),
                   [](const Model& m) { return m.trained; }))
    fail_config(
        "[plan] no model has a loss and an optimizer, so there is nothing to train; add [loss] and "
        "[optimizer]");
  plan->train_feed = make_feed(*plan, "train inputs", experiment.batch.micro);
  plan->eval_feed = make_feed(*plan, "evaluation inputs", experiment.batch.eval);
  try {
    auto micro = write_micro(*plan, context);
    auto evaluate = write_evaluate(*plan);
    check_groups(*plan, problems);
    for (size_t m = 0; m < plan->models.size(); ++m)
      if (plan->models[m].trained &&
          std::none_of(plan->groups.begin(), plan->groups.end(),
                       [&](const Group& g) { return g.model == static_cast<int32_t>(m); }))
        problems.add(experiment.models[m].origin, experiment.models[m].path,
                     "has a loss but no parameter to train",
                     "add a layer with parameters, or set frozen = true");
    problems.raise_if_any();
    make_scalars(*plan, scalars);
    plan->update = compile("update", write_update(*plan), *plan);
    plan->micro = compile("micro", std::move(micro), *plan);
    plan->evaluate = compile("evaluate", std::move(evaluate), *plan);
    if (plan->accumulation > 1) plan->begin = compile("begin", write_begin(*plan), *plan);
  } catch (const Error& e) {
    if (e.code() == PLAIT_ERR_MEMORY) throw;  // no fault of the file
    if (!problems.empty()) return nullptr;
    add_problem(plan->experiment, e, problems);
    return nullptr;
  }
  plan->storage.lay_out();
  for (const Program* p : {&plan->begin, &plan->micro, &plan->update, &plan->evaluate})
    plan->transient_bytes = std::max(plan->transient_bytes, p->transient_bytes);
  explain(*plan, context.log);
  return plan;
}

}  // namespace plait::plan
