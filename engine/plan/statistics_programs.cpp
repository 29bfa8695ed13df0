#include "engine/plan/statistics_programs.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <limits>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/check.hpp"
#include "engine/plan/collectives.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/halves.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/statistics_figures.hpp"
#include "engine/plan/step_programs.hpp"
#include "engine/program/op_def.hpp"
#include "kit/ops/statistics.hpp"

namespace plait::plan {

using program::attr;
using program::Graph;
using program::make_shape;
using program::ValueId;

namespace {

// By StatisticsOf: the word in `of`, which is also the first part of a tensor's name.
const std::vector<std::string> kKinds = {"parameters", "gradients", "activations",
                                         "activation_gradients"};

bool wants(const config::StatisticsConfig& config, StatisticsOf of) {
  const std::string& name = kKinds[static_cast<size_t>(of)];
  return std::find(config.of.begin(), config.of.end(), name) != config.of.end();
}

bool is_of_layers(StatisticsOf of) {
  return of == StatisticsOf::kActivations || of == StatisticsOf::kActivationGradients;
}

bool matches(const config::StatisticsConfig& config, const std::string& name) {
  return std::any_of(config.match.begin(), config.match.end(),
                     [&](const std::string& pattern) { return glob_match(pattern, name); });
}

std::vector<std::string> figure_names() {
  std::vector<std::string> names;
  for (const StatisticsFigure& f : statistics_figures()) names.emplace_back(f.name);
  return names;
}

}  // namespace

int64_t Statistics::n_sums() const {
  return kit::kStatisticsSums + (histogram ? 2 * kit::kBins : 0);
}

bool observes_layers(const config::StatisticsConfig& config) {
  return config.every > 0 && (wants(config, StatisticsOf::kActivations) ||
                              wants(config, StatisticsOf::kActivationGradients));
}

void check_statistics(const Plan& plan, const TracedModels& traced, config::Problems& problems) {
  const config::StatisticsConfig& c = plan.experiment.statistics;
  const auto report = [&](const char* key, const std::string& what, const std::string& hint) {
    const std::string path = std::string("statistics.") + key;
    problems.add(origin_of(plan.experiment, path), path, what, hint);
  };
  const auto check_names = [&](const char* key, const std::vector<std::string>& given,
                               const std::vector<std::string>& known) {
    for (const std::string& name : given)
      if (std::find(known.begin(), known.end(), name) == known.end())
        report(key, "there is no '" + name + "'" + did_you_mean(nearest(name, known)),
               "there are: " + join(known));
  };
  std::vector<std::string> figures = figure_names();
  figures.emplace_back("all");
  check_names("figures", c.figures, figures);
  check_names("of", c.of, kKinds);
  if (c.every == 0) return;
  if (c.figures.empty()) report("figures", "an empty list asks for nothing", "set every = 0");
  if (c.of.empty()) report("of", "an empty list names no tensors", "set every = 0");
  if (observes_layers(c) && plan.grid.pipeline() > 1)
    report("of",
           "activations need all layers on each rank, found topology.pipeline = " +
               std::to_string(plan.grid.pipeline()),
           "leave out activations and activation_gradients");
  if (observes_layers(c) && !traced.observed) return;  // names of layers are not known
  std::vector<std::string> names;
  for (const Parameter& p : plan.parameters) names.push_back(p.name);
  if (traced.observed)
    for (const Tracer::LayerOutput& o : traced.observed->layer_outputs()) names.push_back(o.name);
  for (const std::string& pattern : c.match)
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return glob_match(pattern, name); }))
      report("match",
             "'" + pattern + "' matches no parameter" +
                 (observes_layers(c) ? " and no layer" : "") +
                 did_you_mean(nearest(pattern, names)),
             "`plait plan FILE -v` lists parameters and layers");
}

namespace {

void choose_figures(const config::StatisticsConfig& config, Statistics& s) {
  const auto figures = statistics_figures();
  const auto has = [&](const char* name) {
    return std::find(config.figures.begin(), config.figures.end(), name) != config.figures.end();
  };
  for (size_t i = 0; i < figures.size(); ++i) {
    if (!has("all") && !has(figures[i].name)) continue;
    s.figures.push_back(i);
    s.histogram = s.histogram || figures[i].histogram;
  }
}

void add_parameters(PlanDraft& plan, Log* log) {
  const config::StatisticsConfig& c = plan.experiment.statistics;
  for (const StatisticsOf of : {StatisticsOf::kParameters, StatisticsOf::kGradients}) {
    if (!wants(c, of)) continue;
    const bool gradients = of == StatisticsOf::kGradients;
    for (size_t i = 0; i < plan.parameters.size(); ++i) {
      const Parameter& p = plan.parameters[i];
      if (!matches(c, p.name) || (gradients && p.frozen)) continue;
      if (gradients && p.holders.size() > 1) {
        // No rank keeps the sum of the terms of its holders.
        if (log && plan.rank == 0)
          log->warn("[statistics] the gradient of '" + p.name +
                    "' is left out: pipeline ranks share the parameter");
        continue;
      }
      const auto model = std::find_if(plan.models.begin(), plan.models.end(),
                                      [&](const Model& m) { return m.name == p.model; });
      plan.statistics.tensors.push_back({kKinds[static_cast<size_t>(of)] + "/" + p.name, of, i,
                                         static_cast<size_t>(model - plan.models.begin()),
                                         program::elements(p.shape)});
    }
  }
}

void add_layers(PlanDraft& plan, const Tracer& observed, Log* log) {
  const config::StatisticsConfig& c = plan.experiment.statistics;
  const double most = plan.experiment.topology.chunk_mib * (1 << 20);
  std::set<size_t> told;
  for (const StatisticsOf of : {StatisticsOf::kActivations, StatisticsOf::kActivationGradients}) {
    if (!wants(c, of)) continue;
    const bool gradients = of == StatisticsOf::kActivationGradients;
    const auto& outputs = observed.layer_outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!matches(c, outputs[i].name)) continue;
      if (gradients && !plan.models[outputs[i].model].trained) continue;
      // Nothing before it is trained, so nobody needs its gradient.
      if (gradients && !observed.graph().value(outputs[i].value).requires_grad) continue;
      const plait_shape& shape = observed.graph().shape(outputs[i].value);
      if (most > 0 && static_cast<double>(program::bytes(shape)) > most) {
        // The step never has all of it: see topology.chunk_mib.
        if (log && plan.rank == 0 && told.insert(i).second)
          log->info("[statistics] the output of '" + outputs[i].name +
                    "' is left out: it is larger than topology.chunk_mib");
        continue;
      }
      plan.statistics.tensors.push_back({kKinds[static_cast<size_t>(of)] + "/" + outputs[i].name,
                                         of, i, outputs[i].model,
                                         program::elements(shape) * plan.grid.data()});
    }
  }
}

}  // namespace

void declare_statistics(PlanDraft& plan, const TracedModels& traced, Log* log) {
  if (plan.experiment.statistics.every == 0 || plan.experiment.generate.only) return;
  Statistics& s = plan.statistics;
  choose_figures(plan.experiment.statistics, s);
  add_parameters(plan, log);
  if (traced.observed) add_layers(plan, *traced.observed, log);
  const auto n = static_cast<int64_t>(s.tensors.size());
  const auto place = [&](const char* name, int64_t elements) {
    FlatBuffer flat = plan.storage.add_flat(name, Category::kResults, PLAIT_F64);
    plan.storage.append(flat, elements);
    return flat;
  };
  s.sums = place("statistics", n * s.n_sums());
  s.extremes = place("extremes", n * kit::kStatisticsExtremes);
  s.scales = place("scales of gradients", 2 * static_cast<int64_t>(plan.models.size()));
}

namespace {

// What this rank counts of a tensor: each element is counted by one rank. dtype 0: nothing.
struct CountedPart {
  BufferRef at;
  int64_t n = 0;
  uint32_t dtype = 0;
  const Parameter* split = nullptr;  // which it is all of, in place of `at`
};

CountedPart part_of_bucket(const Plan& plan, const Parameter& p, bool gradient) {
  const ParameterGroup& group = group_of(plan, p);
  const Bucket& bucket = bucket_of(plan, p);
  const int64_t begin = std::max(p.flat_offset, bucket.shard_begin),
                end = std::min(p.flat_offset + p.stored_elements,
                               bucket.shard_begin + bucket.shard_elements);
  if (begin >= end) return {};
  const uint32_t dtype = gradient ? group.gradients.dtype : group.parameters.dtype;
  const BufferRef shard =
      gradient ? gradient_shard(plan, group, bucket) : parameter_shard(plan, group, bucket);
  return {offset_by(shard, begin - bucket.shard_begin, dtype), end - begin, dtype};
}

CountedPart counted_part(const Plan& plan, const StatisticsTensor& t) {
  const Parameter& p = plan.parameters[t.source];
  const bool gradient = t.of == StatisticsOf::kGradients;
  if (p.holders.empty() || p.holders[0] != plan.at.pipeline) return {};
  if (!p.sharded && plan.at.tensor > 0) return {};
  // Whether the replicas divide it.
  const bool divided = gradient ? plan.zero > 0 : is_divided(plan, p);
  if (!divided && plan.at.data > 0) return {};
  if (gradient || divided) return part_of_bucket(plan, p, gradient);
  return {p.value, p.stored_elements, p.shape.dtype,
          p.is_split() || p.is_quantized() ? &p : nullptr};
}

// Where the results of tensor i lie.
struct Slots {
  BufferRef sums, extremes;
};
Slots slots_of(const Statistics& s, size_t i) {
  const auto at = static_cast<int64_t>(i);
  return {s.sums.at(at * s.n_sums()), s.extremes.at(at * kit::kStatisticsExtremes)};
}

// Returns what stands for the sums.
ValueId write_nothing(Graph& g, const Statistics& s, size_t i) {
  constexpr double kNone = std::numeric_limits<double>::lowest();  // less than all that is finite
  const Slots to = slots_of(s, i);
  const auto fill = [&](const char* name, int64_t n, BufferRef at, double v) {
    const plait_shape shape = make_shape(PLAIT_F64, {n});
    return g.assign(g.persistent(name, shape, at), program::filled(g, shape, v));
  };
  fill("extremes", kit::kStatisticsExtremes, to.extremes, kNone);
  return fill("statistics", s.n_sums(), to.sums, 0);
}

// Over the ranks of every axis.
void reduce_over_ranks(Graph& g, PlanDraft& plan, const FlatBuffer& buffer, const char* name,
                       uint32_t reduction, std::vector<ValueId> written) {
  ValueId all = flat(g, name, buffer, 0, buffer.elements);
  for (const topology::Axis axis :
       {topology::Axis::kTensor, topology::Axis::kData, topology::Axis::kPipeline}) {
    if (ranks_of(plan, axis) == 1) continue;
    const int32_t id = add_collective(plan, name, axis, PLAIT_COMM_ALL_REDUCE);
    plan.collectives[static_cast<size_t>(id)].reduction = reduction;
    written.insert(written.begin(), all);
    all = wait_collective(g, id, start_all_reduce(g, plan, id, std::move(written)));
    written.clear();
  }
}

std::unique_ptr<Graph> write_sums(PlanDraft& plan) {
  auto graph = std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar);
  Graph& g = *graph;
  const Statistics& s = plan.statistics;
  std::vector<ValueId> sums;
  for (size_t i = 0; i < s.tensors.size(); ++i) {
    const StatisticsTensor& t = s.tensors[i];
    g.scope = t.name;
    if (is_of_layers(t.of)) {  // the micro-batch has left them
      if (plan.at.tensor > 0) sums.push_back(write_nothing(g, s, i));
      continue;
    }
    const CountedPart part = counted_part(plan, t);
    if (part.dtype == 0) {
      sums.push_back(write_nothing(g, s, i));
      continue;
    }
    const plait_shape shape = make_shape(part.dtype, {part.n});
    std::vector<ValueId> in{part.split ? read_whole(g, plan, *part.split, shape)
                                       : g.persistent(t.name, shape, part.at)};
    if (t.of == StatisticsOf::kGradients)
      in.push_back(g.persistent("scale", make_shape(PLAIT_F64, {}),
                                s.scales.at(static_cast<int64_t>(t.model))));
    const auto out = g.apply("statistics", std::move(in), {attr("histogram", s.histogram)});
    const Slots to = slots_of(s, i);
    sums.push_back(g.bind(out[0], to.sums));
    g.bind(out[1], to.extremes);
  }
  g.scope = "statistics";
  reduce_over_ranks(g, plan, s.sums, "sums of statistics", PLAIT_COMM_SUM, sums);
  return graph;
}

// A program of its own: in that of the sums the order of the two collectives would follow from the
// ops of the rank.
std::unique_ptr<Graph> write_extremes(PlanDraft& plan) {
  auto graph = std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar);
  graph->scope = "statistics";
  reduce_over_ranks(*graph, plan, plan.statistics.extremes, "extremes of statistics",
                    PLAIT_COMM_MAX, {});
  return graph;
}

// One micro-batch, which leaves nothing but statistics.
void write_micro_batch(const EntryPointSource& from, EntryPoint& entry) {
  PlanDraft& plan = from.plan;
  TracedStep w = write_observation(plan, *from.traced.observed,
                                   [&plan](Collective c) { return plan.add(std::move(c)); });
  size_t state = 0;
  for (size_t i = 0; i < plan.statistics.tensors.size(); ++i) {
    if (!is_of_layers(plan.statistics.tensors[i].of)) continue;
    const Slots to = slots_of(plan.statistics, i);
    w.graph->bind(w.states[state++].state, to.sums);
    w.graph->bind(w.states[state++].state, to.extremes);
  }
  const StageView view{*w.graph, {}, [](const ParameterUse& use) { return use.value; }, 0, false};
  gather_parameter_uses(plan, w, view);
  entry.launches.push_back(
      {plan.add(compile("observe_layers", std::move(w.graph), plan)), 0, 0, 0});
  entry.feed = plan.train_feed;
  entry.stage_feeds = {plan.train_feed};
}

}  // namespace

EntryPoint write_statistics(const EntryPointSource& from) {
  PlanDraft& plan = from.plan;
  EntryPoint entry{kStatistics, "statistics of tensors", {}};
  const auto& tensors = plan.statistics.tensors;
  if (tensors.empty()) return entry;
  if (std::any_of(tensors.begin(), tensors.end(),
                  [](const StatisticsTensor& t) { return is_of_layers(t.of); }))
    write_micro_batch(from, entry);
  entry.launches.push_back({plan.add(compile("statistics", write_sums(plan), plan)), 0, -1, -1});
  if (plan.grid.ranks() > 1)
    entry.launches.push_back(
        {plan.add(compile("statistics_extremes", write_extremes(plan), plan)), 0, -1, -1});
  return entry;
}

}  // namespace plait::plan
