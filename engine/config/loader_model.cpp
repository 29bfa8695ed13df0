// Reads models: losses, metrics, optimizer. Their layers: loader_layers.cpp.
#include <plait/layer.h>
#include <plait/optimizer.h>
#include <plait/peft.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/name_rules.hpp"
#include "engine/base/text.hpp"
#include "engine/config/loader.hpp"
#include "engine/config/schema.hpp"

namespace plait::config {
namespace {

constexpr std::string_view kShorthands[] = {"optimizer", "loss", "losses", "metrics"};

}  // namespace

std::vector<ModelConfig> ExperimentLoader::read_models() {
  const Node &single = document_.root.find("model"), &several = document_.root.find("models");
  std::vector<ModelConfig> models;
  if (single && several) {
    problems_.add(several.origin(), "models",
                  "given together with [model] (" + single.origin().text() + ")",
                  "keep one model as [model], or write [models.NAME] for each");
  } else if (several) {
    if (!several.is(NodeKind::kTable) || several.entries().empty())
      problems_.add(several.origin(), "models",
                    std::string("expected named models, found ") +
                        (several.is(NodeKind::kTable) ? "none" : several.kind_name()),
                    "write [[models.NAME.layers]]");
    for (const Node::Entry& entry : several.entries())
      models.push_back(read_model(entry.key, {key_path("models", entry.key), &entry.value}, false));
    for (const std::string_view key : kShorthands)
      if (const Node& node = document_.root.find(key))
        problems_.add(node.origin(), std::string(key),
                      "belongs to the single [model], but the file has [models]",
                      "write models.NAME." + std::string(key));
  } else if (single) {
    models.push_back(read_model("model", {"model", &single}, true));
  } else {
    problems_.add(document_.root.origin(), "model", "there is no model",
                  "add [[model.layers]] entries");
  }
  return models;
}

// Keys about weights that no key names.
void ExperimentLoader::refuse_without_load(const OptionSet& keys, const std::string& path,
                                           std::initializer_list<const char*> names) {
  const std::string load = key_path(path, "load");
  for (const char* key : names)
    if (!keys.get_texts(key).empty())
      problems_.add(keys.origin(key), key_path(path, key),
                    "is about the weights that " + load + " names, and it names none",
                    "set " + load + ", or remove the key");
}

ModelConfig ExperimentLoader::read_model(const std::string& name, const ConfigEntry& table,
                                         bool only) {
  ModelConfig model;
  model.name = name;
  model.path = table.path;
  model.origin = table.node->origin();
  constexpr std::string_view kTables[] = {"layers", "adapters", "optimizer",
                                          "loss",   "losses",   "metrics"};
  model.keys =
      OptionSet::check(*table.node, model_keys(), kTables, table.path, resolver_, problems_);
  model_keys().read(model.keys, model);
  for (const std::string& rule : model.load_names)
    if (const std::string wrong = NameRules::fault(rule); !wrong.empty())
      problems_.add(model.keys.origin("load_names"), key_path(table.path, "load_names"),
                    "the rule '" + printable(rule) + "' " + wrong,
                    "write \"OURS=THEIRS\", for instance \"linear*=fc*\"");
  if (model.load.empty())
    refuse_without_load(model.keys, table.path, {"load_names", "load_missing", "load_unexpected"});
  if (!table.node->is(NodeKind::kTable)) return model;
  if (!good_name(name))
    problems_.add(table.node->origin(), table.path, "'" + name + "' is not a valid name",
                  "use letters, digits, _ and -");

  const bool trains = !model.frozen && !generates_only_;
  model.layers = read_layers(table);
  model.adapters = read_adapters(table);
  if (!model.adapter_field.empty() && model.adapters.empty())
    problems_.add(model.keys.origin("adapter_field"), key_path(table.path, "adapter_field"),
                  "names a field of adapters' numbers, and the model has no adapters",
                  "add [[" + key_path(table.path, "adapters") + "]], or remove the key");
  model.losses = read_losses(table, only);
  model.metrics = read_metrics(table, only);
  ConfigEntry optimizer{key_path(table.path, "optimizer"), &table.node->find("optimizer")};
  if (only) optimizer = one_of(optimizer, {"optimizer", &document_.root.find("optimizer")});
  if (*optimizer.node)
    model.optimizer = read_optimizer(optimizer);
  else if (trains)
    problems_.add(table.node->origin(), optimizer.path, "the model has no optimizer",
                  "add [" + optimizer.path + "], or set " + table.path + ".frozen = true");
  if (model.losses.empty() && trains)
    problems_.add(table.node->origin(), only ? "loss" : key_path(table.path, "loss"),
                  "the model has no loss",
                  "add [" + (only ? "loss" : key_path(table.path, "loss")) + "], or set " +
                      table.path + ".frozen = true");
  return model;
}

// Entries may share a name that is given, though not the names of one list.
std::vector<AdapterConfig> ExperimentLoader::read_adapters(const ConfigEntry& model) {
  std::vector<AdapterConfig> adapters;
  std::vector<std::string> taken;
  for (const ConfigEntry& entry :
       entries(model.node->find("adapters"), key_path(model.path, "adapters"), false)) {
    AdapterConfig adapter;
    read_item(entry, PLAIT_KIND_PEFT, adapter_keys(), {}, adapter);
    adapter_keys().read(adapter.keys, adapter);
    if (adapter.load.empty())
      refuse_without_load(adapter.keys, entry.path, {"load_missing", "load_unexpected"});
    if (adapter.keys.given("match") && adapter.match.empty())
      problems_.add(adapter.keys.origin("match"), key_path(entry.path, "match"),
                    "an empty list matches nothing", "name patterns, as in [\"*.attn.*.weight\"]");
    std::vector<std::string> names = adapter.names, of_entry;
    const char* key = names.empty() ? "name" : "names";
    const Origin origin = adapter.keys.origin(key);
    if (names.empty())
      names = {adapter.keys.get_text("name")};
    else if (!adapter.keys.get_text("name").empty())
      problems_.add(origin, key_path(entry.path, key),
                    "given together with name (" + adapter.keys.origin("name").text() + ")",
                    "keep one of the two");
    adapter.names.clear();
    if (adapter.keys.given("names")) adapter.keys.set_texts("names", {}, Origin::none());
    for (const std::string& name : names) {
      adapter.keys.set_text("name", name, origin);
      name_entry(entry, "adapter", name, adapter.type, adapter.keys,
                 name.empty() ? taken : of_entry, adapter.name, key);
      if (!name.empty()) taken.push_back(name);
      check_load(adapter, adapters);
      adapters.push_back(adapter);
    }
  }
  return adapters;
}

// Entries of one name are one adapter, whose weights come from one place.
void ExperimentLoader::check_load(const AdapterConfig& adapter,
                                  const std::vector<AdapterConfig>& before) {
  for (const AdapterConfig& other : before)
    if (other.name == adapter.name && other.load != adapter.load)
      return problems_.add(adapter.origin, key_path(adapter.path, "load"),
                           "adapter '" + adapter.name + "' also has an entry at " +
                               other.origin.text() + ", which loads " +
                               (other.load.empty() ? "nothing" : "'" + other.load + "'"),
                           "let all entries of an adapter load the same weights");
}

std::vector<LossConfig> ExperimentLoader::read_losses(const ConfigEntry& model, bool only) {
  ConfigEntry table = one_of({key_path(model.path, "losses"), &model.node->find("losses")},
                             {key_path(model.path, "loss"), &model.node->find("loss")});
  if (only) {
    table = one_of(table, {"losses", &document_.root.find("losses")});
    table = one_of(table, {"loss", &document_.root.find("loss")});
  }
  std::vector<LossConfig> losses;
  std::vector<std::string> taken;
  for (const ConfigEntry& entry : entries(*table.node, table.path, true)) {
    LossConfig loss;
    read_item(entry, PLAIT_KIND_LOSS, loss_keys(), {}, loss);
    loss_keys().read(loss.keys, loss);
    name_entry(entry, "loss", loss.keys.get_text("name"), loss.type, loss.keys, taken, loss.name);
    losses.push_back(std::move(loss));
  }
  return losses;
}

std::vector<MetricConfig> ExperimentLoader::read_metrics(const ConfigEntry& model, bool only) {
  ConfigEntry table{key_path(model.path, "metrics"), &model.node->find("metrics")};
  if (only) table = one_of(table, {"metrics", &document_.root.find("metrics")});
  std::vector<MetricConfig> metrics;
  std::vector<std::string> taken;
  for (const ConfigEntry& entry : entries(*table.node, table.path, true)) {
    MetricConfig metric;
    read_item(entry, PLAIT_KIND_METRIC, metric_keys(), {}, metric);
    metric_keys().read(metric.keys, metric);
    name_entry(entry, "metric", metric.keys.get_text("name"), metric.type, metric.keys, taken,
               metric.name);
    metrics.push_back(std::move(metric));
  }
  return metrics;
}

namespace {

// A rate that is not finite would destroy every parameter in one step.
void check_rates(const OptionSet& keys, const std::string& path, Problems& problems) {
  for (const char* key : {"learning_rate", "weight_decay"})
    if (const double value = keys.get_real(key); !std::isfinite(value))
      problems.add(keys.origin(key), key_path(path, key),
                   "expected a finite number, found " + real_text(value));
}

}  // namespace

OptimizerConfig ExperimentLoader::read_optimizer(const ConfigEntry& table) {
  OptimizerConfig optimizer;
  CatalogItem item;
  constexpr std::string_view kTables[] = {"schedule", "groups"};
  read_item(table, PLAIT_KIND_OPTIMIZER, optimizer_keys(), kTables, optimizer, &item);
  if (!table.node->is(NodeKind::kTable)) return optimizer;
  if (!optimizer.keys.given("learning_rate"))
    optimizer.keys.set_real("learning_rate", item.learning_rate, Origin::none());
  if (!optimizer.keys.given("weight_decay"))
    optimizer.keys.set_real("weight_decay", item.weight_decay, Origin::none());
  check_rates(optimizer.keys, table.path, problems_);
  optimizer_keys().read(optimizer.keys, optimizer);
  optimizer.schedule = read_schedule(table);
  optimizer.groups = read_groups(table, optimizer);
  return optimizer;
}

std::optional<ItemConfig> ExperimentLoader::read_schedule(const ConfigEntry& owner) {
  const Node& node = owner.node->find("schedule");
  if (node.absent()) return std::nullopt;
  ItemConfig schedule;
  if (!node.is(NodeKind::kTable))
    problems_.add(node.origin(), key_path(owner.path, "schedule"),
                  std::string("expected a table, found ") + node.kind_name(),
                  "write schedule = {type = \"...\"}");
  else
    read_item({key_path(owner.path, "schedule"), &node}, PLAIT_KIND_SCHEDULE, schedule_keys(), {},
              schedule);
  return schedule;
}

void ExperimentLoader::read_rule(const ConfigEntry& table, const OptimizerConfig& of,
                                 GroupConfig& group, CatalogItem& own) {
  std::vector<std::string_view> known{"schedule"};
  const Node& type = table.node->find("type");
  if (!type.absent() && !(type.is(NodeKind::kText) && type.as_text().empty()))
    return read_item(table, PLAIT_KIND_OPTIMIZER, group_keys(), known, group, &own);
  group.path = table.path;
  group.origin = table.node->origin();
  for (const Node::Entry& entry : table.node->entries()) {
    if (!of.options.declares(entry.key)) continue;
    problems_.add(entry.origin, key_path(table.path, entry.key),
                  "'" + entry.key + "' is an option of [" + of.path + "]",
                  "add type = \"" + of.type + "\" to give this group options of its own");
    known.emplace_back(entry.key);
  }
  group.keys = OptionSet::check(*table.node, group_keys(), known, table.path, resolver_, problems_);
}

// The name of a group stands in names of metrics, behind that of its model.
void ExperimentLoader::check_group_name(const std::vector<GroupConfig>& before,
                                        const GroupConfig& group) {
  const std::string& name = group.keys.get_text("name");
  const std::string key = key_path(group.path, "name");
  const auto stands_in_names = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  };
  if (name == "frozen")
    problems_.add(group.keys.origin("name"), key,
                  "'frozen' is what plans call parameters of no group", "give it another name");
  if (!std::all_of(name.begin(), name.end(), stands_in_names))
    problems_.add(group.keys.origin("name"), key, "'" + name + "' is no name of a group",
                  "use letters, digits, _ and -");
  for (const GroupConfig& other : before)
    if (!name.empty() && other.keys.get_text("name") == name)
      problems_.add(group.keys.origin("name"), key,
                    "'" + name + "' is the name of " + other.path + ", too",
                    "give each group a name of its own");
}

std::vector<GroupConfig> ExperimentLoader::read_groups(const ConfigEntry& optimizer,
                                                       const OptimizerConfig& of) {
  std::vector<GroupConfig> groups;
  for (const ConfigEntry& table :
       entries(optimizer.node->find("groups"), key_path(optimizer.path, "groups"), false)) {
    GroupConfig group;
    CatalogItem rates;
    rates.learning_rate = of.learning_rate;
    rates.weight_decay = of.weight_decay;
    read_rule(table, of, group, rates);
    if (group.keys.get_texts("match").empty() && group.keys.given("match"))
      problems_.add(group.keys.origin("match"), key_path(table.path, "match"),
                    "an empty list matches no parameter", "name patterns, as in [\"*.bias\"]");
    check_rates(group.keys, table.path, problems_);  // its own, and not those it inherits
    if (!group.keys.given("learning_rate"))
      group.keys.set_real("learning_rate", rates.learning_rate, Origin::none());
    if (!group.keys.given("weight_decay"))
      group.keys.set_real("weight_decay", rates.weight_decay, Origin::none());
    group_keys().read(group.keys, group);  // with the inherited rates
    group.schedule = table.node->has("schedule") ? read_schedule(table) : of.schedule;
    check_group_name(groups, group);
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace plait::config
