#include "engine/plan/dataset.hpp"

#include <cstddef>

#include "engine/base/c_error.hpp"
#include "engine/base/plugin_call.hpp"

namespace plait::plan {

Dataset::Dataset(const config::DatasetConfig& config, const plugin::Registry& registry,
                 bool metadata)
    : Dataset(config.type, config.name, &config.options, registry, metadata) {}

Dataset::Dataset(std::string_view type, std::string name, const plait_options* options,
                 const plugin::Registry& registry, bool metadata)
    : name_(std::move(name)),
      item_(registry.dataset(type)),
      host_(registry.host_of(&item_)),
      plugin_(registry.plugin_of(&item_)) {
  constexpr size_t kSize =
      offsetof(plait_dataset_item, open_metadata) + sizeof(item_.open_metadata);
  metadata_ = metadata && item_.struct_size >= kSize && item_.open_metadata;
  check_plugin({plugin_, metadata_ ? "open_metadata" : "open", "dataset", item_.name},
               doing("opening"), [&] {
                 return metadata_ ? item_.open_metadata(host_, options, &handle_)
                                  : item_.open(host_, options, &handle_);
               });
  info_.struct_size = sizeof info_;
  try {
    check_plugin({plugin_, "info", "dataset", item_.name}, doing("describing"),
                 [&] { return item_.info(handle_, &info_); });
    data::check_info(info_, "[plugin " + plugin_ + "] dataset '" + item_.name + "'" +
                                (name_.empty() ? "" : " of [data." + name_ + "]"));
    for (uint32_t i = 0; i < info_.n_fields; ++i)
      if (info_.fields[i].role != PLAIT_FIELD_WEIGHT) fields_.push_back(info_.fields[i]);
  } catch (...) {
    close();
    throw;
  }
}

Dataset::Dataset(const Dataset& of, WithoutSamples)
    : name_(of.name_),
      item_(of.item_),
      host_(of.host_),
      plugin_(of.plugin_),
      metadata_(true),
      info_(of.info_) {
  for (uint32_t i = 0; i < info_.n_fields; ++i) {
    own_fields_.push_back(info_.fields[i]);
    own_fields_.back().name = own_names_.emplace_back(info_.fields[i].name).c_str();
    if (own_fields_.back().role != PLAIT_FIELD_WEIGHT) fields_.push_back(own_fields_.back());
  }
  info_.fields = own_fields_.data();
  info_.host_bytes = 0;
}

std::shared_ptr<const Dataset> Dataset::description() const {
  return std::shared_ptr<const Dataset>(new Dataset(*this, WithoutSamples{}));
}

const char* Dataset::text_of(uint32_t field, uint32_t what, uint64_t index) const {
  constexpr size_t kSize = offsetof(plait_dataset_item, text_of) + sizeof(item_.text_of);
  if (item_.struct_size < kSize || !item_.text_of || !handle_) return nullptr;
  return call_plugin({plugin_, "text_of", "dataset", item_.name},
                     [&] { return item_.text_of(handle_, field, what, index); });
}

std::string Dataset::doing(const char* what) const {
  return name_.empty() ? "" : std::string(what) + " [data." + name_ + "]";
}

Dataset::~Dataset() { close(); }

void Dataset::close() noexcept {
  if (!handle_) return;
  call_plugin_noexcept(host_, {"", "close", "dataset", item_.name}, [&] { item_.close(handle_); });
}

}  // namespace plait::plan
