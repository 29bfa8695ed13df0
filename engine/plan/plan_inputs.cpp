#include "engine/plan/plan_inputs.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/config/sizes.hpp"
#include "engine/data/sample_order.hpp"
#include "engine/plan/check.hpp"
#include "engine/plan/dataset_texts.hpp"
#include "engine/plan/dataset_tokenizers.hpp"
#include "engine/plan/devices.hpp"
#include "engine/plan/field_texts.hpp"
#include "engine/plan/warnings.hpp"
#include "engine/topology/grid_check.hpp"

namespace plait::plan {

void choose_grid(PlanDraft& plan, const PlanContext& context, config::Problems& problems) {
  auto& t = plan.experiment.topology;
  auto& batch = plan.experiment.batch;
  const bool open = config::has_open_axis(t);
  const bool closed = config::close_axis(plan.experiment, context.world, problems);
  if (open) config::derive_batch(plan.experiment, problems);
  topology::GridRequest request;
  request.sizes = {t.pipeline, t.data, t.tensor};
  request.world = context.world;
  request.chunks = t.pipeline > 1 ? t.virtual_stages : 1;
  request.global = batch.global;
  request.derived = origin_of(plan.experiment, "batch.global") == config::Origin::none();
  request.micro = batch.micro;
  request.accumulation = batch.accumulation;
  request.eval = batch.eval;
  for (const auto& model : plan.experiment.models)
    request.layers = std::max<int64_t>(request.layers, static_cast<int64_t>(model.layers.size()));
  const bool fits =
      closed && add_topology_errors(plan.experiment, topology::check_grid(request), problems);
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

namespace {

bool probe_with_options(const Plan& plan, const PlanContext& context, const std::string& name,
                        std::string& detail) {
  config::Problems wrong;  // of options; reported when the device is chosen
  const config::OptionSet options =
      config::device_options(plan.experiment, *plan.registry, name, context.resolver, wrong);
  return probe_device(*plan.registry, name, options, detail);
}

// The device of the highest priority that can be opened here; "" and the reasons if there is none.
std::string best_device(const Plan& plan, const PlanContext& context, std::string& refused) {
  for (const std::string& name : devices_by_priority(*plan.registry)) {
    std::string detail;
    const std::string plugin = plan.registry->plugin_of(&plan.registry->device(name));
    if (!is_allowed(plan, plugin))
      detail = "plugin '" + plugin + "' is not in plugins.allow";
    else if (probe_with_options(plan, context, name, detail))
      return name;
    refused += (refused.empty() ? "" : "; ") + name + ": " + detail;
    if (context.log) context.log->debug("[plan] device '" + name + "' is passed over: " + detail);
  }
  return "";
}

}  // namespace

bool is_allowed(const Plan& plan, const std::string& plugin) {
  const std::vector<std::string>& allow = plan.experiment.plugins.allow;
  return allow.empty() || std::find(allow.begin(), allow.end(), plugin) != allow.end();
}

void choose_device(PlanDraft& plan, const PlanContext& context, config::Problems& problems) {
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
    if (context.rank == 0) warn_of_other_devices(plan, context.log);
  }
  const plait_device_item& item = plan.registry->device(plan.device);
  plan.device_options = config::device_options(plan.experiment, *plan.registry, plan.device,
                                               context.resolver, problems);
  const uint32_t threads =
      call_plugin({plan.registry->plugin_of(&item), "threads", "device", plan.device},
                  [&] { return item.threads(&plan.device_options); });
  constexpr uint32_t kMost = 65536;
  if (threads == 0 || threads > kMost)
    fail(PLAIT_ERR_PLUGIN,
         strf("[plugin %s] device '%s' says it has %u threads, expected 1 to %u; tell its author",
              plan.registry->plugin_of(&item).c_str(), plan.device.c_str(), threads, kMost));
  plan.threads = threads;
  if (context.rank == 0) warn_many_threads(plan.experiment, threads, context.log);
}

void open_datasets(PlanDraft& plan, const PlanContext& context, config::Problems& problems) {
  if (context.sibling) {
    plan.datasets = context.sibling->datasets;
    return;
  }
  const bool middle = plan.at.pipeline > 0 && plan.at.pipeline + 1 < plan.grid.pipeline();
  for (const auto& d : plan.experiment.datasets)
    if (auto dataset = open_dataset(d, *plan.registry, context.resolver, problems, middle)) {
      // That of training may be there for the shapes of what a host feeds.
      if (d.name != "train" && fields_given(d).empty() && dataset->info().n_samples == 0)
        problems.add(d.origin, d.path,
                     "dataset '" + d.type + "' of plugin '" + dataset->plugin() +
                         "' has no samples to evaluate",
                     "give it some, or leave it out");
      plan.datasets.push_back(std::move(dataset));
    }
  check_texts(plan.experiment, plan.datasets, problems);
  if (!plan.experiment.generate.only)
    check_tokenizers(plan.experiment, plan.datasets, plan.registry,
                     context.rank == 0 ? context.log : nullptr, problems);
  if (plan.experiment.generate.only || plan.experiment.dataset("train") ||
      problems.touch("data.train"))
    return;
  // [data.trian]
  constexpr std::string_view kTrain = "train";
  for (const auto& d : plan.experiment.datasets)
    if (d.name != "eval" && nearest(d.name, std::span(&kTrain, 1)) == kTrain)
      return problems.add(
          d.origin, d.path,
          "there is no [data.train] to train on (did you mean it by [" + d.path + "]?)",
          "name it [data.train]");
  problems.add(plan.experiment.origin, "data.train", "there is no such dataset",
               "add [data.train], which also tells the shapes of what a host feeds");
}

void keep_samples_read(PlanDraft& plan) {
  const auto reads = [](const Feed& f) { return !f.fields.empty() || f.weight.segment >= 0; };
  const bool any =
      std::any_of(plan.entry_points.begin(), plan.entry_points.end(), [&](const EntryPoint& e) {
        return std::any_of(e.stage_feeds.begin(), e.stage_feeds.end(), reads);
      });
  for (auto& dataset : plan.datasets) {
    const config::DatasetConfig& config = *plan.experiment.dataset(dataset->name());
    if (!fields_given(config).empty()) continue;  // it has no others
    if (!any)
      dataset = dataset->description();
    else if (!dataset->has_samples())
      dataset = std::make_shared<Dataset>(config, *plan.registry);
  }
}

void count_steps(PlanDraft& plan, const PlanContext& context) {
  const auto& run = plan.experiment.run;
  const auto& batch = plan.experiment.batch;
  plan.accumulation = batch.global / (batch.micro * plan.experiment.topology.data);
  plan.total_steps = run.steps;
  const Dataset* train = plan.dataset("train");
  if (!train) return;
  int64_t n = train->info().n_samples;
  if (const auto* c = plan.experiment.dataset("train"); c->limit > 0) n = std::min(n, c->limit);
  if (context.rank == 0) warn_large_batch(plan.experiment, n, context.log);
  plan.steps_per_epoch = data::batches_per_epoch(n, batch.global);
  if (run.epochs > 0 && (n > 0 || run.steps == 0))
    plan.total_steps = run.epochs * plan.steps_per_epoch;
}

}  // namespace plait::plan
