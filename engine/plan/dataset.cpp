#include "engine/plan/dataset.hpp"

#include <cstddef>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/plan/field_texts.hpp"

namespace plait::plan {

namespace {

// What an item has opened, and what it says of it.
struct Opened {
  bool metadata = false;
  void* handle = nullptr;
  plait_dataset_info info{};
};

// For messages: its plugin, its name, and what is done with it.
struct Naming {
  const std::string &plugin, &name;
  std::string opening, describing;
};

Opened open_item(const plait_dataset_item& item, const plait_host* host, const Naming& naming,
                 const plait_options* options, bool metadata) {
  constexpr size_t kSize = offsetof(plait_dataset_item, open_metadata) + sizeof(item.open_metadata);
  Opened o;
  o.metadata = metadata && item.struct_size >= kSize && item.open_metadata;
  check_plugin({naming.plugin, o.metadata ? "open_metadata" : "open", "dataset", item.name},
               naming.opening, [&] {
                 return o.metadata ? item.open_metadata(host, options, &o.handle)
                                   : item.open(host, options, &o.handle);
               });
  o.info.struct_size = sizeof o.info;
  try {
    check_plugin({naming.plugin, "info", "dataset", item.name}, naming.describing,
                 [&] { return item.info(o.handle, &o.info); });
    data::check_info(o.info, "[plugin " + naming.plugin + "] dataset '" + item.name + "'" +
                                 (naming.name.empty() ? "" : " of [data." + naming.name + "]"));
  } catch (...) {
    call_plugin_noexcept(host, {"", "close", "dataset", item.name}, [&] { item.close(o.handle); });
    throw;
  }
  return o;
}

// Fields that are the dataset's own, with their names.
void add_fields(const std::vector<std::string>& texts, std::deque<std::string>& names,
                std::vector<plait_field>& fields) {
  for (const std::string& text : texts) {
    ParsedField parsed = parse_field(text);
    fields.push_back(parsed.field);
    fields.back().name = names.emplace_back(std::move(parsed.name)).c_str();
  }
}

// Of a batch.
std::vector<plait_field> without_weight(const plait_dataset_info& info) {
  std::vector<plait_field> fields;
  for (uint32_t i = 0; i < info.n_fields; ++i)
    if (info.fields[i].role != PLAIT_FIELD_WEIGHT) fields.push_back(info.fields[i]);
  return fields;
}

}  // namespace

// Of fields that the experiment tells, nothing is opened: there are no samples.
Dataset::Dataset(const config::DatasetConfig& config, const plugin::Registry& registry,
                 bool metadata)
    : name_(config.name),
      item_(registry.dataset(config.type)),
      host_(registry.host_of(&item_)),
      plugin_(registry.plugin_of(&item_)),
      metadata_(true) {
  if (const std::vector<std::string>& texts = fields_given(config); !texts.empty()) {
    add_fields(texts, own_names_, own_fields_);
    info_.struct_size = sizeof info_;
    info_.fields = own_fields_.data();
    info_.n_fields = static_cast<uint32_t>(own_fields_.size());
    try {
      data::check_info(info_, "[data] fields of [data." + name_ + "]");
    } catch (const Error& e) {
      fail_config(e.text());
    }
  } else {
    const Opened o =
        open_item(item_, host_, {plugin_, name_, doing("opening"), doing("describing")},
                  &config.options, metadata);
    metadata_ = o.metadata, handle_ = o.handle, info_ = o.info;
  }
  fields_ = without_weight(info_);
}

Dataset::Dataset(std::string_view type, std::string name, const plait_options* options,
                 const plugin::Registry& registry, bool metadata)
    : name_(std::move(name)),
      item_(registry.dataset(type)),
      host_(registry.host_of(&item_)),
      plugin_(registry.plugin_of(&item_)) {
  const Opened o = open_item(item_, host_, {plugin_, name_, doing("opening"), doing("describing")},
                             options, metadata);
  metadata_ = o.metadata, handle_ = o.handle, info_ = o.info;
  fields_ = without_weight(info_);
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
  }
  info_.fields = own_fields_.data();
  info_.host_bytes = 0;
  fields_ = without_weight(info_);
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
