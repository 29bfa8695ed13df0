// The engine's own keys, declared with the same table as a plugin's options. A new key is one line
// in schema.cpp and one field in experiment.hpp; check, template and documentation follow.
#pragma once

#include <plait/option.h>

#include <span>
#include <string_view>
#include <vector>

#include "engine/config/option_view.hpp"

namespace plait::config {

struct Section {
  const char* path;  // "run", "evaluate.early_stop"
  const char* help;
  OptionView options;
};

// The sections that do not belong to an item, in the order in which they are written.
std::span<const Section> sections();
const Section& section(std::string_view path);

// Keys of the engine inside an item's table, beside the item's options.
OptionView layer_keys();
OptionView loss_keys();
OptionView metric_keys();
OptionView optimizer_keys();  // learning_rate and weight_decay default to the item's values
OptionView schedule_keys();
OptionView group_keys();
OptionView dataset_keys();
OptionView normalize_keys();  // of data.X.normalize.FIELD
OptionView model_keys();

// The engine's keys for an item kind ("plait.layer/1"), including those that are tables ("tie",
// "groups"): the reserved names that an item's option must not have. Empty for a kind that cannot
// be part of an experiment. "parallel" is not among them: engine and layer both read it.
std::vector<std::string_view> reserved_keys(std::string_view kind);

}  // namespace plait::config
