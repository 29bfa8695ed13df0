// What a checkpoint records of adapters besides tensors: settings, and the experiment.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/config/experiment.hpp"
#include "engine/session/result_config.hpp"

namespace plait::session {

// An entry [[model.adapters]] as a file records it; values in TOML.
struct RecordedAdapter {
  std::string model;  // its path, "model"; "": that of any model
  std::string name, type;
  std::map<std::string, std::string> options;  // keys of the engine, such as `match`, among them
};

// Of an adapter's parameter TARGET.NAME.OWN: TARGET, and TARGET.OTHER.OWN.
std::string target_of(const std::string& parameter, const std::string& name);
std::string as_named(const std::string& parameter, const std::string& name,
                     const std::string& other);

// Of RunState::extra: the updates of an adapter that samples choose. model: its name.
std::string updates_key(const std::string& model, const std::string& adapter);

// In the order of the experiment.
std::vector<RecordedAdapter> adapters_in(const ResultConfig& settings);

// Leaves out the settings of the entries of a model that `keep` refuses, by name, and numbers the
// others anew.
void keep_adapters(ResultConfig& settings, const std::string& model_path,
                   const std::function<bool(const std::string&)>& keep);
// Adds entries behind those that the model has.
void add_adapters(ResultConfig& settings, const std::string& model_path,
                  const std::vector<RecordedAdapter>& entries);

// Every sample takes the adapters that the model still has: without adapter_field.
void leave_adapter_field(config::ModelConfig& model);
void leave_adapter_field(ResultConfig& settings, const std::string& model_path);

// Neither checkpoint.best nor early stopping watches a metric of one of the adapters.
void leave_metrics(config::Experiment& e, const std::vector<std::string>& adapters);

// Samples choose again where the adapter that all take in an evaluation is no more.
void leave_fixed_adapter(config::Experiment& e);

// Leaves out groups of the model's optimizer with a pattern that matches none of its parameters,
// and such patterns of load_missing.
void drop_empty_groups(config::ModelConfig& model, const std::vector<std::string>& parameters);

}  // namespace plait::session
