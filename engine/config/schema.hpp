// The engine's own keys, declared with the same table as a plugin's options. A new key is one line
// in schema.cpp, or in schema_items.cpp if it stands in the table of an item, which also says
// whether it decides the result, and one field in experiment.hpp;
// reading, check, template, documentation, and the comparisons of ranks and of checkpoints follow.
#pragma once

#include <plait/option.h>

#include <span>
#include <string_view>
#include <vector>

#include "engine/config/experiment.hpp"
#include "engine/config/key.hpp"

namespace plait::config {

struct Section {
  const char* path;  // "run", "evaluate.early_stop"
  const char* help;
  OptionView options;
  void (*read)(const OptionSet& values, Experiment& to);  // writes the values into their fields
};

// The sections that do not belong to an item, in the order in which they are written.
std::span<const Section> sections();
const Section& section(std::string_view path);

// Keys of the engine inside an item's table, beside the item's options.
KeyTable<LayerConfig> layer_keys();
KeyTable<BlockConfig> block_keys();
KeyTable<LossConfig> loss_keys();
KeyTable<MetricConfig> metric_keys();
KeyTable<OptimizerConfig> optimizer_keys();  // the item has its own default rates
KeyTable<ItemConfig> schedule_keys();
KeyTable<GroupConfig> group_keys();
KeyTable<AdapterConfig> adapter_keys();
KeyTable<DatasetConfig> dataset_keys();
KeyTable<ItemConfig> tokenizer_keys();
KeyTable<ItemConfig> format_keys();
KeyTable<NormalizeConfig> normalize_keys();  // of data.X.normalize.FIELD
KeyTable<ModelConfig> model_keys();

// What a declared key means. An option of an item decides the result.
KeyRole role_of(const plait_option& declared);

// The engine's keys for an item kind ("plait.layer/1"), including those that are tables ("tie",
// "groups"): the reserved names that an item's option must not have. Empty for a kind that cannot
// be part of an experiment. "parallel" is not among them: engine and layer both read it.
std::vector<std::string_view> reserved_keys(std::string_view kind);

}  // namespace plait::config
