// A dataset opened by a plugin.
#pragma once

#include <plait/dataset.h>

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/experiment.hpp"
#include "engine/data/data_loader.hpp"
#include "engine/plugin/registry.hpp"

namespace plait::plan {

// Owns the plugin's object. info() is read once; the item's read() may be called from any thread.
class Dataset {
 public:
  // metadata: no samples are to be read; see description(). Errors: the plugin's error, with the
  // dataset's name and its position in the file.
  Dataset(const config::DatasetConfig& config, const plugin::Registry& registry,
          bool metadata = false);
  // By its type and options. name: for messages, may be empty.
  Dataset(std::string_view type, std::string name, const plait_options* options,
          const plugin::Registry& registry, bool metadata = false);
  ~Dataset();
  // The same without samples, memory and texts: what a rank keeps that reads none.
  std::shared_ptr<const Dataset> description() const;
  bool has_samples() const { return handle_ && !metadata_; }
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  const std::string& plugin() const { return plugin_; }
  const std::string& name() const { return name_; }
  const plait_dataset_item& item() const { return item_; }
  const void* handle() const { return handle_; }
  // For a data loader; borrows this. Without samples it makes batches of positions alone.
  data::DatasetSource source() const {
    return {&item_, handle_, name_, plugin_, has_samples() ? nullptr : &info_};
  }
  const plait_dataset_info& info() const { return info_; }
  // plait_dataset_item.text_of; nullptr where the item has none.
  const char* text_of(uint32_t field, uint32_t what, uint64_t index) const;
  // The dataset's fields except those with the role weight: the fields of a batch.
  const std::vector<plait_field>& fields() const { return fields_; }

 private:
  struct WithoutSamples {};
  Dataset(const Dataset& of, WithoutSamples);
  void close() noexcept;
  std::string doing(const char* what) const;

  std::string name_;
  const plait_dataset_item& item_;
  const plait_host* host_;
  std::string plugin_;
  bool metadata_ = false;
  void* handle_ = nullptr;
  plait_dataset_info info_{};
  std::vector<plait_field> fields_;
  // Of a description; those of a dataset belong to the plugin.
  std::deque<std::string> own_names_;
  std::vector<plait_field> own_fields_;
};

}  // namespace plait::plan
