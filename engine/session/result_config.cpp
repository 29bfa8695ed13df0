#include "engine/session/result_config.hpp"

#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/config/schema.hpp"
#include "engine/plan/field_texts.hpp"
#include "engine/plan/method_updates.hpp"

namespace plait::session {
namespace {

constexpr char kDevice[] = "device", kFields[] = "fields of [data.";

using config::OptionSet;
using config::OptionValue;

class Collector {
 public:
  Collector(const plan::Plan& plan, const ResultConfig* then) : plan_(plan), then_(then) {}

  ResultConfig collect() {
    const config::Experiment& e = plan_.experiment;
    for (const auto& [path, set] : e.sections) values(path, set);
    for (const config::ModelConfig& model : e.models) of_model(model);
    if (const config::DatasetConfig* train = e.dataset("train")) of_data(*train);
    for (const auto& dataset : plan_.datasets) fields_of(*dataset);
    all_[kDevice] = plan_.device;  // auto takes another one where a plugin cannot be loaded
    return std::move(all_);
  }

 private:
  void add(const std::string& path, const OptionValue& value) {
    const std::string key = path + "." + value.declared->name, toml = config::value_toml(value);
    const char* usual = value.declared->default_value;
    if (then_ && !then_->contains(key) && usual && toml == usual) return;
    all_[key] = toml;
  }
  void values(const std::string& path, const OptionSet& set) {
    for (const OptionValue& value : set.values())
      if (config::role_of(*value.declared) == config::KeyRole::kResult) add(path, value);
  }
  // A path is not recorded: the content of the data is. An item may declare a key of the engine
  // too ("parallel"), whose role holds.
  void options(const std::string& path, const config::ItemConfig& of) {
    for (const OptionValue& value : of.options.values()) {
      const uint32_t type = value.declared->type;
      for (size_t i = 0; i < value.items.size(); ++i)
        item(path + "." + config::item_key(value, i), *value.items[i]);
      if (type != PLAIT_OPT_PATH && type != PLAIT_OPT_PATHS && !config::is_item_type(type) &&
          !of.keys.declares(value.declared->name))
        add(path, value);
    }
  }
  void item(const std::string& path, const config::ItemConfig& of) {
    values(path, of.keys);
    options(path, of);
  }
  template <class T>
  void list(const std::string& path, const std::vector<T>& items) {
    for (size_t i = 0; i < items.size(); ++i) item(path + "[" + std::to_string(i) + "]", items[i]);
  }
  void of_model(const config::ModelConfig& model) {
    values(model.path, model.keys);
    list(model.path + ".layers", model.layers);
    for (size_t i = 0; i < model.layers.size(); ++i)
      for (const config::TieConfig& tie : model.layers[i].tie)
        all_[model.path + ".layers[" + std::to_string(i) + "].tie." + tie.own] = tie.full;
    list(model.path + ".adapters", model.adapters);
    for (const config::AdapterConfig& adapter : model.adapters)
      if (plan::has_rules(plan_.registry->peft(adapter.type))) assume_steps();
    list(model.path + ".losses", model.losses);
    if (!model.optimizer) return;
    const std::string path = model.path + ".optimizer";
    item(path, *model.optimizer);
    schedule(path, model.optimizer->schedule);
    for (size_t i = 0; i < model.optimizer->groups.size(); ++i) {
      const std::string group = path + ".groups[" + std::to_string(i) + "]";
      item(group, model.optimizer->groups[i]);
      schedule(group, model.optimizer->groups[i].schedule);
    }
  }
  // The run's length matters only if a schedule depends on it, or a PEFT method that chooses among
  // its targets.
  void schedule(const std::string& owner, const std::optional<config::ItemConfig>& of) {
    if (!of) return;
    item(owner + ".schedule", *of);
    assume_steps();
  }
  void assume_steps() {
    all_["steps that the schedule assumes"] = std::to_string(plan_.total_steps);
  }
  void of_data(const config::DatasetConfig& data) {
    item("data.train", data);
    for (const config::NormalizeConfig& one : data.normalize)
      values("data.train.normalize." + one.field, one.keys);
    if (!plan::fields_given(data).empty()) return;  // its samples are not known
    const plait_dataset_info& info = plan_.dataset("train")->info();
    all_["content of [data.train]"] =
        strf("%ld samples, %s", static_cast<long>(info.n_samples), hex64(info.fingerprint).c_str());
  }
  // The whole text stands for the dataset where it is not there: data.NAME.fields.
  void fields_of(const plan::Dataset& dataset) {
    std::vector<std::string> texts;
    for (uint32_t i = 0; i < dataset.info().n_fields; ++i)
      texts.push_back(config::toml_text(plan::field_text(dataset.info().fields[i])));
    all_[kFields + dataset.name() + "]"] = "[" + join(texts) + "]";
  }

  const plan::Plan& plan_;
  const ResultConfig* then_;
  ResultConfig all_;
};

}  // namespace

ResultConfig result_config(const plan::Plan& plan) { return Collector(plan, nullptr).collect(); }
ResultConfig result_config_beside(const ResultConfig& then, const plan::Plan& plan) {
  return Collector(plan, &then).collect();
}

namespace {

// As it is written in a file: [optimizer], where there is one model.
std::string shown(const std::string& key) {
  return key.starts_with("model.optimizer.") ? key.substr(6) : key;
}

}  // namespace

std::vector<std::string> differences(const ResultConfig& then, const ResultConfig& now) {
  std::vector<std::string> lines;
  for (const auto& [key, was] : then) {
    const auto is = now.find(key);
    if (is == now.end())
      lines.push_back(shown(key) + " was " + was + ", is not set any more");
    else if (is->second != was)
      lines.push_back(shown(key) + " was " + was + ", is " + is->second);
  }
  for (const auto& [key, is] : now)
    // Checkpoints of older engines tell neither.
    if (!then.contains(key) && key != kDevice && !key.starts_with(kFields))
      lines.push_back(shown(key) + " was not set, is " + is);
  return lines;
}

}  // namespace plait::session
