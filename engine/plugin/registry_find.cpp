// Look-ups in the registry.
#include "engine/base/error.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/config/declarations.hpp"
#include "engine/plugin/loaded.hpp"

namespace plait::plugin {

const ItemHead& Registry::find(std::string_view kind, std::string_view name) const {
  if (const ItemHead* head = items_.find(kind, name)) return *head;
  const std::vector<std::string> names = items_.names(kind);
  fail_not_found("[plugin] unknown " + std::string(short_kind(kind)) + " '" + std::string(name) +
                 "'" + did_you_mean(nearest(std::string(name), names)) +
                 "; known are: " + (names.empty() ? "none" : join(names)) + load_summary());
}

const plait_layer_item& Registry::layer(std::string_view name) const {
  return *static_cast<const plait_layer_item*>(find(PLAIT_KIND_LAYER, name).table);
}
const plait_loss_item& Registry::loss(std::string_view name) const {
  return *static_cast<const plait_loss_item*>(find(PLAIT_KIND_LOSS, name).table);
}
const plait_metric_item& Registry::metric(std::string_view name) const {
  return *static_cast<const plait_metric_item*>(find(PLAIT_KIND_METRIC, name).table);
}
const plait_optimizer_item& Registry::optimizer(std::string_view name) const {
  return *static_cast<const plait_optimizer_item*>(find(PLAIT_KIND_OPTIMIZER, name).table);
}
const plait_schedule_item& Registry::schedule(std::string_view name) const {
  return *static_cast<const plait_schedule_item*>(find(PLAIT_KIND_SCHEDULE, name).table);
}
const plait_peft_item& Registry::peft(std::string_view name) const {
  return *static_cast<const plait_peft_item*>(find(PLAIT_KIND_PEFT, name).table);
}
const plait_dataset_item& Registry::dataset(std::string_view name) const {
  return *static_cast<const plait_dataset_item*>(find(PLAIT_KIND_DATASET, name).table);
}
const plait_tokenizer_item& Registry::tokenizer(std::string_view name) const {
  return *static_cast<const plait_tokenizer_item*>(find(PLAIT_KIND_TOKENIZER, name).table);
}
const plait_format_item& Registry::format(std::string_view name) const {
  return *static_cast<const plait_format_item*>(find(PLAIT_KIND_FORMAT, name).table);
}
const plait_device_item& Registry::device(std::string_view name) const {
  return *static_cast<const plait_device_item*>(find(PLAIT_KIND_DEVICE, name).table);
}
const plait_comm_item& Registry::comm(std::string_view name) const {
  return *static_cast<const plait_comm_item*>(find(PLAIT_KIND_COMM, name).table);
}
const plait_op_item* Registry::find_op(std::string_view name) const {
  const ItemHead* head = items_.find(PLAIT_KIND_OP, name);
  return head ? static_cast<const plait_op_item*>(head->table) : nullptr;
}

const plait_host* Registry::host_of(const void* item) const {
  const ItemHead* head = items_.head_of(item);
  if (!head) fail_internal("[plugin] the host of a table was requested that no plugin has added");
  return head->host;
}
const std::string& Registry::plugin_of(const void* item) const {
  return static_cast<const Host*>(host_of(item))->plugin();
}

bool Registry::find_item(std::string_view kind, std::string_view name,
                         config::CatalogItem& out) const {
  const ItemHead* head = items_.find(kind, name);
  if (!head) return false;
  out = {head->name, head->help, head->host->plugin(), head->options, 0, 0};
  if (kind == PLAIT_KIND_OPTIMIZER) {
    const auto* optimizer = static_cast<const plait_optimizer_item*>(head->table);
    out.learning_rate = optimizer->default_learning_rate;
    out.weight_decay = optimizer->default_weight_decay;
  }
  return true;
}

std::vector<std::string> Registry::item_names(std::string_view kind) const {
  return items_.names(kind);
}

std::vector<std::string> Registry::plugin_names() const {
  std::vector<std::string> names;
  for (const auto& plugin : plugins_) names.push_back(plugin->host.plugin());
  return names;
}

namespace {

const char* or_empty(const char* text) { return text ? text : ""; }

void item_json(JsonWriter& json, const ItemHead& head) {
  json.object().field("kind", head.kind).field("name", head.name).field("help", head.help);
  if (head.kind == PLAIT_KIND_OPTIMIZER) {
    const auto* optimizer = static_cast<const plait_optimizer_item*>(head.table);
    json.field("learning_rate", optimizer->default_learning_rate)
        .field("weight_decay", optimizer->default_weight_decay);
  }
  if (head.kind == PLAIT_KIND_COMM)
    json.field("one_process",
               static_cast<const plait_comm_item*>(head.table)->reach == PLAIT_COMM_REACH_PROCESS);
  json.key("options").array();
  for (uint32_t i = 0; i < head.options.size(); ++i) config::write_option(json, head.options[i]);
  json.end_array().end_object();
}

}  // namespace

std::string Registry::describe_json() const {
  JsonWriter json;
  json.object().key("plugins").array();
  for (const auto& plugin : plugins_) {
    const plait_plugin& table = *plugin->table;
    json.object().field("name", plugin->host.plugin()).field("version", or_empty(table.version));
    json.field("license", or_empty(table.license))
        .field("summary", or_empty(table.summary))
        .field("path", plugin->path);
    json.key("items").array();
    for (const ItemHead* head : items_.all())
      if (head->host == &plugin->host) item_json(json, *head);
    json.end_array().end_object();
  }
  return json.end_array().key("report").raw(report_.json()).end_object().text();
}

}  // namespace plait::plugin
