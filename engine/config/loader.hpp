// The implementation class of load_experiment(), in parts.
#pragma once

#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/experiment.hpp"
#include "engine/config/names.hpp"

namespace plait::config {

// The type of an entry of `layers` that is no item: see ExperimentLoader::add_block().
inline constexpr char kBlock[] = "block";

// Created for one load_experiment(). Every function adds problems and continues with the rest.
class ExperimentLoader {
 public:
  ExperimentLoader(const Document& document, const Catalog& catalog, const PathResolver& resolver,
                   Problems& problems)
      : document_(document), catalog_(catalog), resolver_(resolver), problems_(problems) {}
  Experiment load();
  // The whole document as one item with these keys of the engine.
  ItemConfig load_item(std::string_view kind, const OptionView& keys);

 private:
  // A table of the file with its path: {"model.layers[2]", node}.
  struct ConfigEntry {
    std::string path;
    const Node* node;
  };
  // The entries of a list of tables; one table counts as a list of one.
  std::vector<ConfigEntry> entries(const Node& node, const std::string& path, bool single_allowed);
  // The one that exists of two alternatives, as "[optimizer]" and "[model.optimizer]"; if both
  // exist it is a problem.
  ConfigEntry one_of(const ConfigEntry& a, const ConfigEntry& b);

  // loader.cpp
  void find_unknown_at_top();
  void read_sections(Experiment& to);
  void check_length(Experiment& of);
  void check_numbers(Experiment& to);
  // The argument of check_selected().
  struct SelectedItem {
    const char* kind;
    const char* word;     // "device", for messages
    const char* section;  // the section whose key names the item
    const char* key;
    const char* table;  // the table with the item's options
    const std::string& name;
    const Node& options;
  };
  // True if the item exists, so that its options can be checked.
  bool check_selected(const Experiment& of, const SelectedItem& c);
  void check_device(const Experiment& of);
  void check_comm(const Experiment& of);
  void check_watched(const Experiment& of);
  void check_adapter(const Experiment& of);
  void check_watched(const Experiment& of, const char* section, const char* key,
                     const std::string& metric);
  void add_problem(const Experiment& of, const std::string& section, const char* key,
                   const std::string& message, const std::string& hint);
  void read_tokenizer(Experiment& to);
  OptionSet read_section(std::string_view path);

  // loader_items.cpp
  // Reads the engine's keys, finds the item by `type` and checks its options. `tables`: engine keys
  // that are tables.
  void read_item(const ConfigEntry& table, std::string_view kind, const OptionView& keys,
                 std::span<const std::string_view> tables, ItemConfig& to,
                 CatalogItem* item = nullptr);
  // The items that options describe by tables.
  void read_inner_items(const std::string& path, OptionSet& options);
  void name_entry(const ConfigEntry& table, const char* what, const std::string& given,
                  const std::string& type, OptionSet& keys, std::vector<std::string>& taken,
                  std::string& name, const char* key = "name");  // key: what gives the name
  std::vector<DatasetConfig> read_datasets();
  DatasetConfig read_dataset(const std::string& name, const ConfigEntry& table);
  std::vector<NormalizeConfig> read_normalize(const ConfigEntry& table);
  NormalizeConfig read_normalize_field(const std::string& field, const Origin& origin,
                                       const ConfigEntry& entry);
  void inherit_normalize(std::vector<DatasetConfig>& all) const;

  // loader_layers.cpp
  std::vector<LayerConfig> read_layers(const ConfigEntry& model);
  void read_layer_list(const ConfigEntry& list, const Origin& owner_at, const char* owner,
                       int depth, std::vector<LayerConfig>& to);
  void read_tie(const ConfigEntry& layer, LayerConfig& to);
  void check_parallel(const LayerConfig& layer);
  bool has_room(const ConfigEntry& table, const OptionSet& keys, size_t n,
                const std::vector<LayerConfig>& to);
  void add_copies(LayerConfig layer, std::vector<LayerConfig>& to);
  void add_block(const ConfigEntry& table, int depth, std::vector<LayerConfig>& to);
  static void put_in_block(std::vector<LayerConfig>& layers, const std::string& name,
                           const std::string& number, int block);
  void number_copy(std::vector<LayerConfig>& copy, std::map<std::string, int>& numbers);
  void check_local_names(const BlockConfig& block, const std::vector<LayerConfig>& inner);
  void check_block_names(const std::vector<LayerConfig>& layers);
  void name_layers(std::vector<LayerConfig>& layers);
  static void set_name(LayerConfig& layer, std::string name);

  // loader_model.cpp
  std::vector<ModelConfig> read_models();
  ModelConfig read_model(const std::string& name, const ConfigEntry& table, bool only);
  std::vector<AdapterConfig> read_adapters(const ConfigEntry& model);
  void refuse_without_load(const OptionSet& keys, const std::string& path,
                           std::initializer_list<const char*> names);
  void check_load(const AdapterConfig& adapter, const std::vector<AdapterConfig>& before);
  std::vector<LossConfig> read_losses(const ConfigEntry& model, bool only);
  std::vector<MetricConfig> read_metrics(const ConfigEntry& model, bool only);
  OptimizerConfig read_optimizer(const ConfigEntry& table);
  // The keys of a group, and with a type of its own the options of that, which becomes `own`.
  void read_rule(const ConfigEntry& table, const OptimizerConfig& of, GroupConfig& group,
                 CatalogItem& own);
  std::vector<GroupConfig> read_groups(const ConfigEntry& optimizer, const OptimizerConfig& of);
  void check_group_name(const std::vector<GroupConfig>& before, const GroupConfig& group);
  std::optional<ItemConfig> read_schedule(const ConfigEntry& owner);

  // A plugin that the engine has loaded may still be forbidden in this experiment.
  void check_allowed(const CatalogItem& item, const Origin& origin, const std::string& path);

  // good_name() for the name of a layer in blocks, "block.layer".
  bool good_path(const std::string& name) const;

  const Document& document_;
  const Catalog& catalog_;
  const PathResolver& resolver_;
  Problems& problems_;
  std::vector<std::string> allow_;  // [plugins].allow
  bool generates_only_ = false;     // generate.only
  int blocks_ = 0;                  // copies of blocks so far
};

std::string key_path(const std::string& path, std::string_view key);  // "a.b"
std::string index_path(const std::string& path, size_t i);            // "a[2]"

}  // namespace plait::config
