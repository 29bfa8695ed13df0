// A format of a plugin: folders of models of other libraries. What it returns is checked.
#pragma once

#include <plait/format.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/checkpoint/export_weights.hpp"
#include "engine/checkpoint/tensor_map.hpp"
#include "engine/config/experiment.hpp"
#include "engine/plugin/registry.hpp"

namespace plait::format {

inline constexpr char kExperimentName[] = "experiment.toml", kMapName[] = "weights.map.json";

// What a format says of a model.
struct Description {
  std::vector<checkpoint::ExportFile> files;
  checkpoint::TensorMap map;  // `weights`: a file of the folder, or empty
};

class Format {
 public:
  Format(const config::ItemConfig& config, std::shared_ptr<const plugin::Registry> registry);
  // Errors: those of the item; PLAIT_ERR_UNIMPLEMENTED if it cannot do that; PLAIT_ERR_PLUGIN for
  // malformed results.
  Description read(const std::string& folder) const;
  Description write(const std::string& model_json) const;

 private:
  const config::ItemConfig& config_;
  std::shared_ptr<const plugin::Registry> registry_;  // keeps the plugin loaded
  const plait_format_item& item_;
  const plait_host* host_;
  std::string plugin_;
};

// The types that the parameters of a model have in the weights that it began with, model.load. None
// where it began with a checkpoint, or with nothing; a warning where they cannot be read.
checkpoint::WrittenTypes types_of_source(FileSystem& files, const config::ModelConfig& model,
                                         const checkpoint::Checkpoint& from, Log& log);

// The model of a checkpoint as write() takes it. tokenizer: that of the experiment, if it has one.
std::string model_json(const config::ModelConfig& model,
                       const std::optional<config::ItemConfig>& tokenizer,
                       const checkpoint::Checkpoint& from, const checkpoint::WrittenTypes& types);

struct Imported {
  std::vector<std::string> files;  // paths
  uint64_t parameters = 0, bytes = 0;
};
// See plait_model_import(). check: called before anything is written; what it throws is the result.
Imported import_model(FileSystem& files, const Format& format, const std::string& folder,
                      const std::string& out,
                      const std::function<void(const Description&)>& check = {});

}  // namespace plait::format
