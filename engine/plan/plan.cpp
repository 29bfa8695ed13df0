#include "engine/plan/plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/data/sample_order.hpp"
#include "engine/plan/check.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/describe_pipeline.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/parameter_scope.hpp"
#include "engine/plan/pipeline.hpp"
#include "engine/plan/program_builder.hpp"
#include "engine/plan/trace.hpp"
#include "engine/plan/verify_program.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/verify.hpp"
#include "engine/topology/grid_check.hpp"

namespace plait::plan {

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

data::DataLoaderConfig loader_config(const Plan& plan, const std::string& dataset, bool training) {
  const config::DatasetConfig& c = *plan.experiment.dataset(dataset);
  data::DataLoaderConfig l;
  l.batch = training ? plan.experiment.batch.global : plan.experiment.batch.eval;
  l.seed = static_cast<uint64_t>(plan.experiment.run.seed);
  l.shuffle = training && c.shuffle;
  l.limit = c.limit;
  l.prefetch = static_cast<int>(c.prefetch);
  l.endless = training;
  l.rows = l.batch / plan.grid.data();
  l.row_begin = plan.at.data * l.rows;
  return l;
}

const Program* Plan::program(const std::string& name) const {
  for (const Program& p : programs)
    if (p.name == name) return &p;
  return nullptr;
}

int32_t Plan::add(Program program) {
  programs.push_back(std::move(program));
  return static_cast<int32_t>(programs.size() - 1);
}

int64_t Plan::n_step_sums() const {
  return 2 +
         2 * std::count_if(models.begin(), models.end(), [](const Model& m) { return m.trained; });
}

uint64_t Plan::hash() const {
  Hasher h;
  // Sharding does not count: a checkpoint holds whole tensors.
  for (const Parameter& p : parameters) {
    h.update(p.name + program::text(p.shape));
    if (p.group < 0) continue;
    const ParameterGroup& g = groups[static_cast<size_t>(p.group)];
    h.update(g.name);
    for (const State& s : g.states) h.update(s.name);
    for (const TensorState& s : p.states) h.update(s.name + program::text(s.shape));
  }
  return h.digest64();
}

namespace {

// Sets the grid and the coordinates of this rank. After problems the grid is a single rank with the
// smallest batches, so that the rest of the experiment can be checked.
void choose_grid(Plan& plan, const PlanContext& context, config::Problems& problems) {
  auto& t = plan.experiment.topology;
  auto& batch = plan.experiment.batch;
  topology::GridRequest request;
  request.sizes = {t.pipeline, t.data, t.tensor};
  request.world = context.world;
  request.chunks = t.pipeline > 1 ? t.virtual_stages : 1;
  request.global = batch.global;
  request.micro = batch.micro;
  request.accumulation = batch.accumulation;
  request.eval = batch.eval;
  for (const auto& model : plan.experiment.models)
    request.layers = std::max<int64_t>(request.layers, static_cast<int64_t>(model.layers.size()));
  const bool fits = add_topology_errors(plan.experiment, topology::check_grid(request), problems);
  if (!fits || problems.touch("batch")) {
    t.pipeline = t.data = t.tensor = 1;
    batch = {1, 1, 1, 1};
  }
  plan.grid = topology::Grid(t.pipeline, t.data, t.tensor);
  if (fits && (context.rank < 0 || context.rank >= plan.grid.ranks()))
    fail_invalid(strf("[plan] rank %d of a topology of %d ranks", context.rank, plan.grid.ranks()));
  plan.rank = fits ? context.rank : 0;
  plan.at = plan.grid.at(plan.rank);
  plan.zero = t.data > 1 ? t.zero : 0;
  plan.backend = t.backend;
  if (plan.backend != "auto" && !problems.touch("topology.backend"))
    plan.comm_options = config::comm_options(plan.experiment, *plan.registry, plan.backend,
                                             context.resolver, problems);
}

// Whether the device's probe() says yes; detail: what it found, or why not.
bool probe(const Plan& plan, const PlanContext& context, const std::string& name,
           std::string& detail) {
  const plait_device_item& item = plan.registry->device(name);
  constexpr size_t kSize = offsetof(plait_device_item, probe) + sizeof(item.probe);
  if (item.struct_size < kSize || !item.probe) return true;
  config::Problems wrong;  // of options; reported when the device is chosen
  const config::OptionSet options =
      config::device_options(plan.experiment, *plan.registry, name, context.resolver, wrong);
  char text[512] = "";
  const bool there =
      call_plugin({plan.registry->plugin_of(&item), "probe", "device", name}, [&] {
        return item.probe(plan.registry->host_of(&item), &options, text, sizeof text);
      }) != 0;
  detail = std::string(text, strnlen(text, sizeof text));
  return there;
}

// The device of the highest priority that can be opened here; "" and the reasons if there is none.
std::string best_device(const Plan& plan, const PlanContext& context, std::string& refused) {
  std::vector<std::string> names = plan.registry->devices();
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return plan.registry->device(a).priority > plan.registry->device(b).priority;
  });
  for (const std::string& name : names) {
    std::string detail;
    if (probe(plan, context, name, detail)) return name;
    refused += (refused.empty() ? "" : "; ") + name + ": " + detail;
    if (context.log) context.log->debug("[plan] device '" + name + "' is passed over: " + detail);
  }
  return "";
}

void choose_device(Plan& plan, const PlanContext& context, config::Problems& problems) {
  if (context.sibling) {
    plan.device = context.sibling->device;
    plan.device_options = context.sibling->device_options;
    plan.threads = context.sibling->threads;
    return;
  }
  if (problems.touch("run.device")) return;
  plan.device = plan.experiment.run.device;
  if (plan.device == "auto") {
    std::string refused;
    plan.device = best_device(plan, context, refused);
    if (plan.device.empty())
      return problems.add(plan.experiment.origin, "run.device",
                          refused.empty()
                              ? "no device plugin is loaded" + plan.registry->load_summary()
                              : "no device can be used here: " + refused,
                          "", PLAIT_ERR_NOT_FOUND);
  }
  const plait_device_item& item = plan.registry->device(plan.device);
  plan.device_options = config::device_options(plan.experiment, *plan.registry, plan.device,
                                               context.resolver, problems);
  const uint32_t threads =
      call_plugin({plan.registry->plugin_of(&item), "threads", "device", plan.device},
                  [&] { return item.threads(&plan.device_options); });
  constexpr uint32_t kMost = 65536;
  if (threads > kMost)
    fail(
        PLAIT_ERR_PLUGIN,
        strf("[plugin %s] device '%s' says it has %u threads, expected at most %u; tell its author",
             plan.registry->plugin_of(&item).c_str(), plan.device.c_str(), threads, kMost));
  plan.threads = std::max(1u, threads);
}

void open_datasets(Plan& plan, const PlanContext& context, config::Problems& problems) {
  if (context.sibling) {
    plan.datasets = context.sibling->datasets;
    return;
  }
  for (const auto& d : plan.experiment.datasets)
    if (auto dataset = open_dataset(d, *plan.registry, context.resolver, problems))
      plan.datasets.push_back(std::move(dataset));
  if (!plan.experiment.dataset("train") && !problems.touch("data.train"))
    problems.add(plan.experiment.origin, "data.train", "there is no such dataset",
                 "add [data.train], which also tells the shapes of what a host feeds");
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

void make_results(Plan& plan, config::Problems& problems) {
  plan.results = plan.storage.add_flat("results", Category::kResults, plan.precision.scalar);
  const auto take = [&](int64_t n) { return plan.storage.append(plan.results, n); };
  plan.step_sums = take(2);
  for (const auto& m : plan.experiment.models) {
    Model model;
    model.name = m.name;
    model.trained = !m.frozen && !m.losses.empty();
    plan.models.push_back(model);
  }
  if (problems.empty() && std::none_of(plan.models.begin(), plan.models.end(),
                                       [](const Model& m) { return m.trained; }))
    problems.add(plan.experiment.models[0].origin, plan.experiment.models[0].path,
                 "no model has a loss and an optimizer, so there is nothing to train",
                 "add [loss] and [optimizer]");
  // The values that are summed over ranks come first, without a gap: see n_step_sums().
  for (Model& m : plan.models)
    if (m.trained)
      for (BufferRef* p : {&m.loss_sum, &m.weight_sum}) *p = take(1);
  for (Model& m : plan.models)
    for (BufferRef* p : {&m.loss, &m.norm, &m.finite, &m.eval_loss_sum, &m.eval_weight_sum})
      *p = take(1);
  plan.step = take(1);
}

// In a pipeline each stage has inputs of its own; this feed then is a template without memory.
Feed make_feed(Plan& plan, const std::string& name, int64_t batch) {
  Feed feed;
  feed.batch = batch;
  const int32_t segment =
      plan.storage.add(name, Category::kInputs, plan.grid.pipeline() > 1 ? 0 : 1);
  feed.counter = plan.storage.allocate(segment, 16);
  feed.weight = plan.storage.allocate(segment, program::bytes_of(batch, data::kWeightType));
  return feed;
}

void make_scalars(Plan& plan) {
  for (ParameterGroup& g : plan.groups) {
    g.learning_rate_at = plan.storage.append(plan.scalars, 1);
    g.schedule_factor_at = plan.storage.append(plan.scalars, 1);
  }
}

void explain(const Plan& plan, Log* log) {
  const char* wanted = std::getenv("PLAIT_EXPLAIN");
  if (!log || !wanted || std::string_view(wanted) != "1") return;
  for (const Program& p : plan.programs)
    for (const KernelCall& c : p.calls) {
      if (!c.kernel) continue;
      const program::Op& op = p.graph->ops()[static_cast<size_t>(c.op)];
      log->info("[explain] " + p.name + " " + op.scope + " " + op.name + " " +
                program::text(p.graph->shape(op.out[0])) + ": " + c.kernel->name +
                (c.detail.empty() ? "" : " (" + c.detail + ")") +
                (c.refused.empty() ? "" : "; refused: " + c.refused));
    }
}

// Checks that every operand lies inside its segment, so that a wrong rewrite cannot write to memory
// of another value.
void check_buffer_refs(const Plan& plan) {
  for (const Program& p : plan.programs)
    for (const KernelCall& c : p.calls) {
      const program::Op& op = p.graph->ops()[static_cast<size_t>(c.op)];
      for (size_t i = 0; i < c.operands.size(); ++i) {
        const BufferRef at = c.operands[i];
        const program::ValueId v = i < op.in.size() ? op.in[i] : op.out[i - op.in.size()];
        const uint64_t room =
            at.segment == kTransient
                ? plan.transient_bytes
                : plan.storage.segments().at(static_cast<size_t>(at.segment)).slot_bytes();
        if (at.offset > room || program::bytes(p.graph->shape(v)) > room - at.offset)
          fail_internal("[plan] operand " + std::to_string(i) + " of " + op.name + " in " +
                        op.scope + " lies outside of its segment");
      }
    }
}

// Traces all models and adds the faults found to `problems`. Registers the parameters and their
// holders in the plan, and passes the traces to the builder.
void validate(Plan& plan, ProgramBuilder& builder, config::Problems& problems) {
  // Traces all models first: that registers the parameters and their readers.
  const StageOf one = [](size_t, size_t) { return 0; };
  TracedModels traced{builder.trace(true, one, &problems), builder.trace(false, one, &problems)};
  check_parameters(plan, *traced.train, problems);
  // After problems only faults of the pipeline itself can be found; costs are unknown.
  if (!problems.empty()) plan.experiment.topology.balance = "count";
  try {
    choose_stages(plan, [&](const StageOf& stages) { return builder.trace(true, stages); });
  } catch (const topology::InvalidTopology& e) {
    add_topology_errors(plan.experiment, e.errors(), problems);
  }
  if (!problems.empty()) return;
  if (plan.grid.pipeline() > 1) traced = {builder.trace(true), builder.trace(false)};
  note_holders(plan, {traced.train.get(), traced.evaluate.get()});
  note_parameter_flags(plan, *traced.train);
  builder.use(std::move(traced));
}

}  // namespace

std::unique_ptr<Plan> make_plan(const config::Experiment& experiment, const PlanContext& context,
                                config::Problems& problems) {
  auto plan = std::make_unique<Plan>();
  plan->experiment = experiment;
  plan->registry = context.registry;
  plan->ops = std::make_unique<program::OpRegistry>(*plan->registry);
  choose_grid(*plan, context, problems);
  if (context.rank == 0) warn_ignored(experiment, context.log);
  choose_device(*plan, context, problems);
  open_datasets(*plan, context, problems);
  count_steps(*plan);

  plan->precision = precision_of(experiment.precision);
  plan->scalars = plan->storage.add_flat("scalars", Category::kInputs, plan->precision.scalar);
  make_results(*plan, problems);
  const config::BatchConfig& batch = plan->experiment.batch;
  plan->train_feed = make_feed(*plan, "train inputs", batch.micro);
  plan->eval_feed = make_feed(*plan, "evaluation inputs", batch.eval / plan->grid.data());
  ProgramBuilder builder(*plan, context.log);
  validate(*plan, builder, problems);
  if (!problems.empty()) return nullptr;
  try {
    choose_scopes(*plan);
    lay_out_parameters(*plan);
    make_scalars(*plan);
    declare_states(*plan);
    builder.write();
  } catch (const topology::InvalidTopology& e) {
    add_topology_errors(plan->experiment, e.errors(), problems);
    return nullptr;
  }
  plan->storage.lay_out();
  for (const Program& p : plan->programs)
    plan->transient_bytes = std::max(plan->transient_bytes, p.transient_bytes);
  check_buffer_refs(*plan);
  if (program::verify_enabled()) verify_launches(*plan);
  explain(*plan, context.log);
  warn_idle(*plan, context.log);
  return plan;
}

}  // namespace plait::plan
