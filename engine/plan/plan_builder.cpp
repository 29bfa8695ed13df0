#include "engine/plan/plan_builder.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/adapter_programs.hpp"
#include "engine/plan/check.hpp"
#include "engine/plan/describe_pipeline.hpp"
#include "engine/plan/entry_points.hpp"
#include "engine/plan/frozen_numbers.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/loss_scale.hpp"
#include "engine/plan/loss_weights.hpp"
#include "engine/plan/low_copies.hpp"
#include "engine/plan/model_figures.hpp"
#include "engine/plan/normalization.hpp"
#include "engine/plan/parameter_scope.hpp"
#include "engine/plan/pipeline.hpp"
#include "engine/plan/plan_inputs.hpp"
#include "engine/plan/products.hpp"
#include "engine/plan/quantized_weights.hpp"
#include "engine/plan/statistics_programs.hpp"
#include "engine/plan/trace.hpp"
#include "engine/plan/update.hpp"
#include "engine/plan/verify_program.hpp"
#include "engine/plan/warnings.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/verify.hpp"

namespace plait::plan {
namespace {

// Plan::models becomes known.
void declare_models(PlanDraft& plan, config::Problems& problems) {
  plan.results = plan.storage.add_flat("results", Category::kResults, plan.precision.scalar);
  for (const auto& m : plan.experiment.models) {
    Model model;
    model.name = m.name;
    model.trained = !m.frozen && !m.losses.empty();
    plan.models.push_back(model);
  }
  if (problems.empty() && !plan.experiment.generate.only &&
      std::none_of(plan.models.begin(), plan.models.end(),
                   [](const Model& m) { return m.trained; }))
    problems.add(plan.experiment.models[0].origin, plan.experiment.models[0].path,
                 "no model has a loss and an optimizer, so there is nothing to train",
                 "add [loss] and [optimizer]");
}

// The norms of a trained model's gradients, with their results. Every rank knows all parameters.
void make_norms(PlanDraft& plan, size_t m, const Tracer& train) {
  const config::ModelConfig& config = plan.experiment.models[m];
  const Tracer::Result& traced = train.results()[m];
  Model& model = plan.models[m];
  const auto has_parameters = [&](const std::string& adapter) {
    return std::any_of(plan.parameters.begin(), plan.parameters.end(), [&](const Parameter& p) {
      return !p.frozen && p.model == model.name && norm_of(plan, p) == adapter;
    });
  };
  std::vector<std::string> adapters;
  if (!config.adapter_field.empty()) adapters = config::adapter_names(config);
  if (adapters.empty() || has_parameters("")) model.norms.emplace_back();
  for (size_t k = 0; k < adapters.size(); ++k) {
    if (!has_parameters(adapters[k])) continue;
    GradientNorm& norm = model.norms.emplace_back();
    norm.adapter = adapters[k];
    if (model.n_weights > 0)
      norm.weights.assign(traced.adapter_weights[k].begin(), traced.adapter_weights[k].end());
  }
  if (model.norms.empty()) model.norms.emplace_back();  // no adapter has parameters
  if (model.norms.size() == 1) model.norms[0].norm = model.norm;
  for (GradientNorm& n : model.norms) {
    if (model.norms.size() > 1) n.norm = plan.storage.append(plan.results, 1);
    if (n.weights.empty()) continue;
    n.active = plan.storage.append(plan.results, 1);
    n.step = plan.step.elements;
    plan.storage.append(plan.step, 1);
  }
}

// Sums and results of a step. train: the traced training step.
void make_results(PlanDraft& plan, const Tracer& train) {
  const auto take = [&](int64_t n) { return plan.storage.append(plan.results, n); };
  // The values that are summed over ranks come first, without a gap: see n_step_sums().
  constexpr int32_t kMostBusyRanks = 4096;
  if (const int32_t ranks = plan.grid.ranks(); ranks > 1 && ranks <= kMostBusyRanks)
    plan.busy_ranks = ranks;
  plan.step_sums = take(plan.n_counts());
  for (Model& m : plan.models) {
    if (m.trained) m.loss_sum = take(1);
    if (m.trained && m.n_weights == 0) m.weight_sum = take(1);
  }
  for (size_t m = 0; m < plan.models.size(); ++m) {
    const program::ValueId sums = train.results()[m].mean_sums;
    if (!sums) continue;
    plan.models[m].n_means = train.graph().shape(sums).dims[0] / 2;
    plan.models[m].mean_sums = take(2 * plan.models[m].n_means);
  }
  for (const Tracer::MetricState& s : train.metric_states()) {
    Metric metric{s.name, s.item, s.model, {}, s.has_weights, s.factor, s.adapter};
    metric.state = take(metric.n_state());
    plan.train_metrics.push_back(std::move(metric));
  }
  for (Model& m : plan.models)
    if (m.n_weights > 0) m.weight_sum = take(1);
  for (Model& m : plan.models)
    for (BufferRef* p : {&m.loss, &m.norm, &m.finite, &m.eval_loss_sum, &m.eval_weight_sum})
      *p = take(1);
  // f32 would stop counting at 2^24.
  plan.step = plan.storage.add_flat("updates", Category::kResults, PLAIT_F64);
  plan.storage.append(plan.step, 1);
  for (size_t m = 0; m < plan.models.size(); ++m)
    if (plan.models[m].trained) make_norms(plan, m, train);
}

// See PlanDraft::train_feed.
Feed make_feed(PlanDraft& plan, const std::string& name, int64_t batch) {
  Feed feed;
  feed.batch = batch;
  const int32_t segment =
      plan.storage.add(name, Category::kInputs, plan.grid.pipeline() > 1 ? 0 : 1);
  feed.counter = plan.storage.allocate(segment, 16);
  feed.weight = plan.storage.allocate(segment, program::bytes_of(batch, data::kWeightType));
  return feed;
}

// What the host writes before each step.
void make_scalars(PlanDraft& plan) {
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

// Which kernel computes the largest product of operands of few bits, and how: whether they save
// time depends on the machine.
void tell_product(const Plan& plan, Log& log, const std::string& type, bool (*is)(uint32_t dtype)) {
  const KernelCall* largest = nullptr;
  for (const Program& p : plan.programs)
    for (const KernelCall& c : p.calls) {
      const program::Op& op = p.graph->ops()[static_cast<size_t>(c.op)];
      const bool multiplies =
          op.def->is_product || op.def->precision == program::PrecisionClass::kLow;
      const bool low = c.kernel && multiplies && is(p.graph->shape(op.in[0]).dtype);
      if (low && (!largest || c.flops > largest->flops)) largest = &c;
    }
  if (largest)
    log.info("[plan] products of " + type + " by kernel '" + largest->kernel->name +
             "': " + printable(largest->detail));
}

void tell_low_products(const Plan& plan, Log* log) {
  if (!log || plan.rank != 0) return;
  if (plan.precision.low == PLAIT_BF16)
    tell_product(plan, *log, "bf16", [](uint32_t dtype) { return dtype == PLAIT_BF16; });
  if (plan.precision.low == PLAIT_F16)
    tell_product(plan, *log, "f16", [](uint32_t dtype) { return dtype == PLAIT_F16; });
  if (plan.experiment.precision.products == "fp8") tell_product(plan, *log, "fp8", kit::is_f8);
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

// The models whose values or parameters a model reads, itself and theirs among them.
std::set<std::string> models_behind(const config::Experiment& e, const std::string& name) {
  std::set<std::string> found;
  std::vector<std::string> left{name};
  while (!left.empty()) {
    const std::string next = left.back();
    left.pop_back();
    for (const config::ModelConfig& m : e.models) {
      if (m.name != next || !found.insert(next).second) continue;
      const auto read = [&](const std::string& value) {
        if (const size_t dot = value.find('.'); dot != std::string::npos)
          left.push_back(value.substr(0, dot));
      };
      for (const config::LayerConfig& layer : m.layers) {
        for (const std::string& value : layer.from) read(value);
        for (const config::TieConfig& tie : layer.tie) read(tie.full);
      }
    }
  }
  return found;
}

// An experiment that generates and nothing else: other models are left out, those that are left are
// frozen, and nothing measures them.
void keep_generation_only(config::Experiment& e) {
  const std::set<std::string> wanted = models_behind(e, e.generate.model);
  if (!wanted.empty())
    std::erase_if(e.models, [&](const config::ModelConfig& m) { return !wanted.contains(m.name); });
  for (config::ModelConfig& model : e.models) {
    model.frozen = true;
    model.losses.clear();
    model.metrics.clear();
    model.optimizer.reset();
  }
  e.datasets.clear();
  e.statistics = {};
}

}  // namespace

PlanBuilder::PlanBuilder(const config::Experiment& experiment, const PlanContext& context)
    : context_(context), record_(context.log, log_level_of(experiment.run.log_level)) {
  draft_.experiment = experiment;
  trains_ = experiment.dataset("train") != nullptr;
  if (draft_.experiment.generate.only) {
    keep_generation_only(draft_.experiment);
    entry_points_ = {write_refresh};
  } else {
    entry_points_ = standard_entry_points();
  }
  draft_.registry = context.registry;
  draft_.ops = std::make_shared<const program::OpRegistry>(*context.registry);
}

std::unique_ptr<const Plan> PlanBuilder::build(config::Problems& problems) {
  watch_.restart();
  choose_inputs(problems);
  end_phase("inputs");
  declare_results(problems);
  trace(problems);
  end_phase("tracing");
  if (!problems.empty()) return nullptr;
  try {
    lay_out();
    end_phase("layout");
    write_entry_points();
    keep_samples_read(draft_);
  } catch (const topology::InvalidTopology& e) {
    add_topology_errors(draft_.experiment, e.errors(), problems);
    return nullptr;
  }
  add_totals();
  end_phase("memory");
  return finish();
}

void PlanBuilder::end_phase(std::string name) {
  phases_.push_back({std::move(name), watch_.seconds()});
  watch_.restart();
}

void PlanBuilder::choose_inputs(config::Problems& problems) {
  choose_grid(draft_, context_, problems);
  if (context_.rank == 0) {
    warn_ignored(draft_.experiment, trains_, context_.log);
    if (!draft_.experiment.generate.only) warn_overwritten(draft_.experiment, context_.log);
  }
  choose_device(draft_, context_, problems);
  open_datasets(draft_, context_, problems);
  count_steps(draft_, context_);
}

void PlanBuilder::declare_results(config::Problems& problems) {
  check_master(draft_.experiment, problems);
  check_split_master(draft_.experiment, problems);
  check_states(draft_.experiment, problems);
  check_frozen(draft_.experiment, problems);
  check_products(draft_.experiment, problems);
  draft_.precision = precision_of(draft_.experiment.precision);
  draft_.scalars = draft_.storage.add_flat("scalars", Category::kInputs, draft_.precision.scalar);
  declare_models(draft_, problems);
  const config::BatchConfig& batch = draft_.experiment.batch;
  draft_.train_feed = make_feed(draft_, "train inputs", batch.micro);
  draft_.evaluation_feed = make_feed(draft_, "evaluation inputs", batch.eval / draft_.grid.data());
  choose_generation(draft_, problems);
  if (draft_.generation.slots > 0)
    entry_points_.insert(entry_points_.end(), {write_prefill, write_decode, write_quantize});
}

// Registers the parameters and their holders in the draft, and chooses the stages.
void PlanBuilder::trace(config::Problems& problems) {
  // Traces all models first: that registers the parameters and their readers.
  const StageOf one = [](size_t, size_t) { return 0; };
  const bool only = draft_.experiment.generate.only;
  if (only && draft_.generation.slots == 0) return;  // a problem was found
  if (!only)
    traced_ = {trace_models(draft_, true, one, &problems),
               trace_models(draft_, false, one, &problems)};
  if (!only && problems.empty() && traced_.train->counted_targets_late())
    traced_.train = trace_models(draft_, true, one, &problems);
  if (const int64_t slots = draft_.generation.slots) {
    traced_.decode = trace_generation(draft_, slots, &problems);
    traced_.prefill = slots == 1 ? traced_.decode : trace_generation(draft_, 1, &problems);
    if (only) traced_.train = traced_.evaluate = traced_.decode;
  }
  check_automatic(draft_, problems);
  check_parameters(draft_, *traced_.train, problems);
  // After problems only faults of the pipeline itself can be found; costs are unknown.
  if (!problems.empty()) draft_.experiment.topology.balance = "count";
  try {
    choose_stages(draft_,
                  [&](const StageOf& stages) { return trace_models(draft_, true, stages); });
  } catch (const topology::InvalidTopology& e) {
    add_topology_errors(draft_.experiment, e.errors(), problems);
  }
  if (!problems.empty()) return;
  if (!only && context_.rank == 0)
    warn_unread_fields(draft_, *traced_.train, *traced_.evaluate, context_.log);
  if (!only) warn_left_out(draft_, *traced_.train, context_.log);
  const StageOf chosen = stage_of(draft_);
  if (draft_.grid.pipeline() > 1)  // which generates nothing
    traced_ = {trace_models(draft_, true, chosen), trace_models(draft_, false, chosen)};
  if (observes_layers(draft_.experiment.statistics) && draft_.grid.pipeline() == 1)
    traced_.observed = trace_observed(draft_);
  check_statistics(draft_, traced_, problems);
  if (draft_.experiment.statistics.every > 0) entry_points_.push_back(write_statistics);
  const std::vector<WriteEntryPoint> of_adapters = adapter_entry_points(draft_);
  entry_points_.insert(entry_points_.end(), of_adapters.begin(), of_adapters.end());
  note_model_figures(draft_, traced_);
  note_holders(draft_, traced_);
  note_parameter_flags(draft_, *traced_.train);
  note_frozen_numbers(draft_, traced_);
  note_low_reads(draft_, traced_);
  note_loss_rows(draft_, *traced_.train);
}

void PlanBuilder::lay_out() {
  make_loss_weights(draft_, *traced_.train);
  make_results(draft_, *traced_.train);
  make_loss_scale(draft_);
  choose_scopes(draft_);
  lay_out_parameters(draft_);
  declare_statistics(draft_, traced_, context_.log);
  make_scalars(draft_);
  declare_states(draft_);
}

void PlanBuilder::write_entry_points() {
  for (const WriteEntryPoint& write : entry_points_) {
    EntryPoint entry = write({draft_, traced_, context_.log});
    if (draft_.find_entry_point(entry.name))
      fail_internal("[plan] two entry points are named '" + entry.name + "'");
    end_phase(entry.name);
    // One without launches has nothing to do on this grid.
    if (!entry.launches.empty()) draft_.entry_points.push_back(std::move(entry));
  }
}

void PlanBuilder::add_totals() {
  draft_.storage.lay_out();
  for (const Program& p : draft_.programs)
    draft_.transient_bytes = std::max(draft_.transient_bytes, p.transient_bytes);
}

std::unique_ptr<const Plan> PlanBuilder::finish() {
  auto plan = std::make_unique<Plan>(std::move(static_cast<Plan&>(draft_)));
  check_buffer_refs(*plan);
  if (program::verify_enabled()) verify_launches(*plan);
  explain(*plan, context_.log);
  tell_low_products(*plan, context_.log);
  warn_products(*plan, context_.log);
  tell_replicated(*plan, context_.log);
  warn_long_samples(*plan, context_.log);
  warn_states(*plan, context_.log);
  warn_idle(*plan, context_.log);
  tell_phases(*plan, phases_, context_.log);
  plan->log_lines = record_.take();
  return plan;
}

std::unique_ptr<const Plan> make_plan(const config::Experiment& experiment,
                                      const PlanContext& context, config::Problems& problems) {
  return PlanBuilder(experiment, context).build(problems);
}

}  // namespace plait::plan
