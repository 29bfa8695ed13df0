// Reads entries that refer to an item of a plugin, and datasets.
#include <plait/dataset.h>
#include <plait/layer.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/config/loader.hpp"
#include "engine/config/near_item.hpp"
#include "engine/config/schema.hpp"

namespace plait::config {
namespace {

// The engine's keys of an item that an option of another one describes.
OptionView inner_keys() { return tokenizer_keys(); }

bool is_auto(const Node& node) { return node.is(NodeKind::kText) && node.as_text() == "auto"; }
std::string found_text(const Node& node) {
  return node.is(NodeKind::kText) ? node.toml() : node.kind_name();
}

}  // namespace

void ExperimentLoader::read_item(const ConfigEntry& table, std::string_view kind,
                                 const OptionView& keys, std::span<const std::string_view> tables,
                                 ItemConfig& to, CatalogItem* item) {
  to.path = table.path;
  to.origin = table.node->origin();
  to.keys = OptionSet::read(*table.node, keys, table.path, resolver_, problems_);
  to.type = to.keys.get_text("type");
  if (to.type.empty()) return;  // reported by read()

  CatalogItem found;
  if (!catalog_.find_item(kind, to.type, found)) {
    std::vector<std::string> names = catalog_.item_names(kind);
    if (kind == PLAIT_KIND_LAYER) names.insert(std::ranges::lower_bound(names, kBlock), kBlock);
    const std::string word = kind_word(kind);
    problems_.add(
        to.keys.origin("type"), key_path(table.path, "type"),
        "unknown " + word + " '" + to.type + "'" +
            did_you_mean(near_item(to.type, kind, names, catalog_)),
        "known are: " + (names.empty() ? "none" : join(names)) + catalog_.load_summary() +
            (to.type.find('.') == std::string::npos
                 ? ""
                 : "; if a plugin elsewhere has it, name that in plugins.paths (or --plugins)"));
    return;
  }
  check_allowed(found, to.keys.origin("type"), key_path(table.path, "type"));
  std::vector<std::string_view> engine_keys(tables.begin(), tables.end());
  for (uint32_t i = 0; i < keys.size(); ++i) engine_keys.emplace_back(keys[i].name);
  to.options =
      OptionSet::check(*table.node, found.options, engine_keys, table.path, resolver_, problems_);
  read_inner_items(table.path, to.options);
  if (item) *item = std::move(found);
}

void ExperimentLoader::read_inner_items(const std::string& path, OptionSet& options) {
  for (const OptionValue& value : std::vector<OptionValue>(options.values())) {
    if (value.tables.empty()) continue;
    std::vector<std::shared_ptr<const ItemConfig>> items;
    for (size_t i = 0; i < value.tables.size(); ++i) {
      auto item = std::make_shared<ItemConfig>();
      const std::string inner = (path.empty() ? "" : path + ".") + item_key(value, i);
      read_item({inner, &value.tables[i]}, value.declared->choices, inner_keys(), {}, *item);
      items.push_back(std::move(item));
    }
    options.set_items(value.declared->name, std::move(items));
  }
}

ItemConfig ExperimentLoader::load_item(std::string_view kind, const OptionView& keys) {
  ItemConfig item;
  read_item({"", &document_.root}, kind, keys, {}, item);
  return item;
}

void ExperimentLoader::name_entry(const ConfigEntry& table, const char* what,
                                  const std::string& given, const std::string& type,
                                  OptionSet& keys, std::vector<std::string>& taken,
                                  std::string& name, const char* key) {
  name = given;
  const auto is_taken = [&] { return std::find(taken.begin(), taken.end(), name) != taken.end(); };
  if (given.empty()) {
    name = type;
    for (int n = 2; is_taken(); ++n) name = type + std::to_string(n);
    keys.set_text("name", name, Origin::none());
  } else if (!good_name(given)) {
    problems_.add(keys.origin("name"), key_path(table.path, key),
                  "'" + given + "' is not a valid name", "use letters, digits, _ and -");
  } else if (is_taken()) {
    problems_.add(keys.origin("name"), key_path(table.path, key),
                  std::string("a second ") + what + " named '" + given + "'",
                  "give each its own name");
  }
  taken.push_back(name);
}

std::vector<DatasetConfig> ExperimentLoader::read_datasets() {
  std::vector<DatasetConfig> all;
  const Node& data = document_.root.find("data");
  if (data.absent()) return all;
  if (!data.is(NodeKind::kTable)) {
    problems_.add(data.origin(), "data",
                  std::string("expected a table of datasets, found ") + data.kind_name(),
                  "write [data.train] above the keys of a dataset");
    return all;
  }
  for (const Node::Entry& entry : data.entries()) {
    const std::string path = key_path("data", entry.key);
    if (!entry.value.is(NodeKind::kTable))
      problems_.add(entry.value.origin(), path,
                    std::string("expected a dataset, found ") + entry.value.kind_name(),
                    "write [data.train] above the keys of a dataset");
    else
      all.push_back(read_dataset(entry.key, {path, &entry.value}));
  }
  inherit_normalize(all);
  return all;
}

// What a model was trained on decides what it is evaluated on.
void ExperimentLoader::inherit_normalize(std::vector<DatasetConfig>& all) const {
  const auto train = std::find_if(all.begin(), all.end(),
                                  [](const DatasetConfig& d) { return d.name == "train"; });
  if (train == all.end()) return;
  const Node& data = document_.root.find("data");
  for (DatasetConfig& d : all) {
    if (d.name == "train" || data.find(d.name).has("normalize")) continue;
    d.normalize = train->normalize;
    for (NormalizeConfig& one : d.normalize) one.inherited = true;
  }
}

DatasetConfig ExperimentLoader::read_dataset(const std::string& name, const ConfigEntry& table) {
  DatasetConfig dataset;
  constexpr std::string_view kTables[] = {"normalize"};
  read_item(table, PLAIT_KIND_DATASET, dataset_keys(), kTables, dataset);
  dataset.name = name;
  if (!good_name(name))
    problems_.add(table.node->origin(), table.path, "'" + name + "' is not a valid name",
                  "use letters, digits, _ and -");
  if (!dataset.keys.given("shuffle"))
    dataset.keys.set_bool("shuffle", name == "train", Origin::none());
  dataset_keys().read(dataset.keys, dataset);
  dataset.normalize =
      read_normalize({key_path(table.path, "normalize"), &table.node->find("normalize")});
  return dataset;
}

std::vector<NormalizeConfig> ExperimentLoader::read_normalize(const ConfigEntry& table) {
  std::vector<NormalizeConfig> all;
  const Node& node = *table.node;
  if (node.absent()) return all;
  if (is_auto(node)) {
    all.push_back(read_normalize_field("*", node.origin(), {table.path, &node}));
  } else if (!node.is(NodeKind::kTable)) {
    problems_.add(node.origin(), table.path,
                  "expected \"auto\" or a table of fields, found " + found_text(node),
                  "write normalize = \"auto\", or normalize.FIELD = {divide = 255}");
  } else {
    for (const Node::Entry& entry : node.entries())
      all.push_back(read_normalize_field(entry.key, entry.origin,
                                         {key_path(table.path, entry.key), &entry.value}));
  }
  return all;
}

NormalizeConfig ExperimentLoader::read_normalize_field(const std::string& field,
                                                       const Origin& origin,
                                                       const ConfigEntry& entry) {
  NormalizeConfig one;
  one.field = field;
  one.origin = origin;
  const Node& node = *entry.node;
  if (is_auto(node)) {
    one.keys = OptionSet::check(Node(), normalize_keys(), {}, entry.path, resolver_, problems_);
    one.keys.set_bool("auto", true, node.origin());
  } else if (node.is(NodeKind::kText)) {
    problems_.add(node.origin(), entry.path,
                  "expected \"auto\" or a table, found " + found_text(node),
                  "write normalize.FIELD = \"auto\", or normalize.FIELD = {divide = 255}");
  } else {
    one.keys = OptionSet::check(node, normalize_keys(), {}, entry.path, resolver_, problems_);
  }
  normalize_keys().read(one.keys, one);
  // A bound experiment has every key.
  const NormalizeConfig initial;
  const std::pair<const char*, bool> set[] = {{"divide", one.divide != initial.divide},
                                              {"mean", one.mean != initial.mean},
                                              {"std", one.std != initial.std}};
  for (const auto& [key, differs] : set)
    if (one.automatic && differs)
      problems_.add(one.keys.origin(key), key_path(entry.path, key),
                    "has no effect beside auto, which takes mean and std from the data",
                    "leave it out, or auto");
  for (auto* list : {&one.mean, &one.std}) {
    if (!list->empty()) continue;
    const std::string key = list == &one.mean ? "mean" : "std";
    list->assign(1, 1);  // tracing continues
    problems_.add(one.keys.origin(key), key_path(entry.path, key),
                  "is an empty list, expected a number, or one for each column");
  }
  return one;
}

}  // namespace plait::config
