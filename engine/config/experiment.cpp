#include "engine/config/experiment.hpp"

#include <plait/comm.h>
#include <plait/device.h>
#include <plait/format.h>

#include <algorithm>

#include "engine/base/text.hpp"
#include "engine/config/loader.hpp"
#include "engine/config/schema.hpp"

namespace plait::config {

const DatasetConfig* Experiment::dataset(std::string_view name) const {
  for (const DatasetConfig& one : datasets)
    if (one.name == name) return &one;
  return nullptr;
}

const ModelConfig* Experiment::model(std::string_view name) const {
  for (const ModelConfig& one : models)
    if (one.name == name) return &one;
  return nullptr;
}

namespace {

bool any_matches(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return glob_match(pattern, name); });
}

}  // namespace

const ItemConfig& OptimizerConfig::rule(int32_t group) const {
  if (group < 0 || groups[static_cast<size_t>(group)].type.empty()) return *this;
  return groups[static_cast<size_t>(group)];
}

bool GroupConfig::holds(const std::string& parameter) const {
  return any_matches(match, parameter);
}

bool AdapterConfig::holds(const std::string& target) const {
  return any_matches(match, target) && !any_matches(exclude, target);
}

bool ModelConfig::trains(const std::string& parameter) const {
  if (frozen) return false;
  return train.empty() ? adapters.empty() : any_matches(train, parameter);
}

std::vector<std::string> adapter_names(const ModelConfig& model) {
  std::vector<std::string> names;
  for (const AdapterConfig& adapter : model.adapters)
    if (std::find(names.begin(), names.end(), adapter.name) == names.end())
      names.push_back(adapter.name);
  return names;
}

std::optional<int64_t> adapter_number(const ModelConfig& model, const std::string& name) {
  const std::vector<std::string> names = adapter_names(model);
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return at - names.begin();
  return name == kNoAdapter ? std::optional<int64_t>(-1) : std::nullopt;
}

Experiment load_experiment(const Document& document, const Catalog& catalog,
                           const PathResolver& resolver, Problems& problems) {
  return ExperimentLoader(document, catalog, resolver, problems).load();
}

ItemConfig load_one_item(std::string_view kind, const Document& document, const Catalog& catalog,
                         const PathResolver& resolver, Problems& problems) {
  return ExperimentLoader(document, catalog, resolver, problems)
      .load_item(kind, kind == PLAIT_KIND_FORMAT ? format_keys() : tokenizer_keys());
}

PluginsConfig plugins_config(const Document& document, Problems& problems) {
  const OptionSet set = OptionSet::read(document.root.find("plugins"), section("plugins").options,
                                        "plugins", PathResolver(), problems);
  return {set.get_texts("paths"), set.get_texts("allow")};
}

OptionSet device_options(const Experiment& experiment, const Catalog& catalog,
                         const std::string& device, const PathResolver& resolver,
                         Problems& problems) {
  CatalogItem item;
  catalog.find_item(PLAIT_KIND_DEVICE, device, item);
  OptionSet set =
      OptionSet::check(experiment.device, item.options, {}, "device", resolver, problems);
  const OptionValue* threads = set.find("threads");
  if (threads && threads->declared->type == PLAIT_OPT_INT && !threads->given)
    for (const auto& [path, run] : experiment.sections)
      if (path == "run") set.set_int("threads", experiment.run.threads, run.origin("threads"));
  return set;
}

OptionSet comm_options(const Experiment& experiment, const Catalog& catalog,
                       const std::string& comm, const PathResolver& resolver, Problems& problems) {
  CatalogItem item;
  catalog.find_item(PLAIT_KIND_COMM, comm, item);
  return OptionSet::check(experiment.comm, item.options, {}, "comm", resolver, problems);
}

}  // namespace plait::config
