// describe_json(): every value with its origin.
#include "engine/base/json.hpp"
#include "engine/config/bind.hpp"

namespace plait::config {

namespace {

void write_item(JsonWriter& json, const ItemConfig& item) {
  json.object().field("type", item.type);
  for (const OptionValue& value : item.options.values()) {
    json.key(value.declared->name);
    write_value(json, value);
  }
  json.end_object();
}

}  // namespace

void write_value(JsonWriter& json, const OptionValue& value) {
  switch (value.declared->type) {
    case PLAIT_OPT_BOOL:
      json.value(value.integer != 0);
      return;
    case PLAIT_OPT_INT:
      json.value(value.integer);
      return;
    case PLAIT_OPT_REAL:
      json.value(value.real);
      return;
    case PLAIT_OPT_INTS:
      json.array();
      for (const int64_t one : value.integers) json.value(one);
      json.end_array();
      return;
    case PLAIT_OPT_REALS:
      json.array();
      for (const double one : value.reals) json.value(one);
      json.end_array();
      return;
    case PLAIT_OPT_TEXTS:
    case PLAIT_OPT_PATHS:
      json.array();
      for (const std::string& one : value.texts) json.value(one);
      json.end_array();
      return;
    case PLAIT_OPT_ITEM:
      if (value.items.empty())
        json.null();
      else
        write_item(json, *value.items[0]);
      return;
    case PLAIT_OPT_ITEMS:
      json.array();
      for (const auto& one : value.items) write_item(json, *one);
      json.end_array();
      return;
    default:
      json.value(value.text);
  }
}

namespace {

class Describer {
 public:
  std::string describe(const Experiment& experiment) {
    json_.object();
    for (const auto& [path, set] : experiment.sections) values(path, path, set);
    for (const ModelConfig& model : experiment.models) {
      values(model.path, model.path, model.keys);
      // Items are listed by their path in a bound experiment, not by the path of a shorthand.
      list(model.path + ".layers", model.layers);
      list(model.path + ".adapters", model.adapters);
      for (size_t i = 0; i < model.losses.size(); ++i) item(loss_path(model, i), model.losses[i]);
      list(table_path(model, "metrics"), model.metrics);
      for (size_t i = 0; i < model.layers.size(); ++i)
        ties(model.path + ".layers[" + std::to_string(i) + "]", model.layers[i]);
      if (model.optimizer) optimizer(table_path(model, "optimizer"), *model.optimizer);
    }
    if (experiment.tokenizer) item("tokenizer", *experiment.tokenizer);
    for (const DatasetConfig& dataset : experiment.datasets) {
      item("data." + dataset.name, dataset);
      for (const NormalizeConfig& one : dataset.normalize) {
        const std::string path = "data." + dataset.name + ".normalize." + one.field;
        values(path, path, one.keys);
      }
    }
    return json_.end_object().text();
  }

 private:
  void field(const std::string& path, const std::string& key, const OptionValue& value) {
    json_.key(path).object().key("value");
    write_value(json_, value);
    json_.field("origin", value.origin_text);
    if (key != path) json_.field("key", key);
    json_.end_object();
  }
  // key: the path of the table in the file.
  void values(const std::string& path, const std::string& key, const OptionSet& set,
              const OptionSet* unless = nullptr) {
    for (const OptionValue& value : set.values())
      if (const std::string name = value.declared->name; !unless || !unless->declares(name))
        field(path + "." + name, key + "." + name, value);
  }
  void item(const std::string& path, const ItemConfig& item) {
    values(path, item.path, item.keys, &item.options);
    values(path, item.path, item.options);
  }
  template <class T>
  void list(const std::string& path, const std::vector<T>& all) {
    for (size_t i = 0; i < all.size(); ++i) item(path + "[" + std::to_string(i) + "]", all[i]);
  }
  void ties(const std::string& path, const LayerConfig& layer) {
    for (const TieConfig& tie : layer.tie)
      json_.key(path + ".tie." + tie.own)
          .object()
          .field("value", tie.full)
          .field("origin", tie.origin.text())
          .end_object();
  }
  void optimizer(const std::string& path, const OptimizerConfig& of) {
    item(path, of);
    if (of.schedule) item(path + ".schedule", *of.schedule);
    for (size_t i = 0; i < of.groups.size(); ++i) {
      const std::string group = path + ".groups[" + std::to_string(i) + "]";
      item(group, of.groups[i]);
      if (of.groups[i].schedule) item(group + ".schedule", *of.groups[i].schedule);
    }
  }

  JsonWriter json_;
};

}  // namespace

std::string describe_json(const Experiment& experiment) { return Describer().describe(experiment); }

}  // namespace plait::config
