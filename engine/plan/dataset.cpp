#include "engine/plan/dataset.hpp"

#include "engine/base/c_error.hpp"

namespace plait::plan {

Dataset::Dataset(const config::DatasetConfig& config, const plugin::Registry& registry)
    : name_(config.name), item_(registry.dataset(config.type)) {
  const std::string& plugin = registry.plugin_of(&item_);
  check_plugin(item_.open(registry.host_of(&item_), &config.options, &handle_), plugin,
               "opening [data." + name_ + "] (" + config.origin.text() + ")");
  info_.struct_size = sizeof info_;
  try {
    check_plugin(item_.info(handle_, &info_), plugin, "info() of [data." + name_ + "]");
    for (uint32_t i = 0; i < info_.n_fields; ++i)
      if (info_.fields[i].role != PLAIT_FIELD_WEIGHT) fields_.push_back(info_.fields[i]);
  } catch (...) {
    item_.close(handle_);
    throw;
  }
}

Dataset::~Dataset() { item_.close(handle_); }

}  // namespace plait::plan
