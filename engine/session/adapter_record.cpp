#include "engine/session/adapter_record.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "engine/base/text.hpp"
#include "engine/config/node.hpp"
#include "engine/session/weight_source.hpp"

namespace plait::session {
namespace {

constexpr char kList[] = ".adapters[";

// Of a key "model.adapters[2].rank".
struct Place {
  std::string model, key;
  size_t index = 0;
};

bool parse(const std::string& text, Place& place) {
  const size_t at = text.find(kList);
  if (at == std::string::npos) return false;
  size_t end = at + sizeof kList - 1;
  place.index = 0;
  for (; end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])); ++end)
    place.index = place.index * 10 + static_cast<size_t>(text[end] - '0');
  if (text.compare(end, 2, "].") != 0) return false;
  place.model = text.substr(0, at);
  place.key = text.substr(end + 2);
  return true;
}

std::string key_of(const std::string& model, size_t index, const std::string& key) {
  return model + kList + std::to_string(index) + "]." + key;
}

std::string unquoted(const std::string& toml) {
  const bool quoted = toml.size() >= 2 && toml.front() == '"' && toml.back() == '"';
  return quoted ? toml.substr(1, toml.size() - 2) : toml;
}

}  // namespace

std::string target_of(const std::string& parameter, const std::string& name) {
  return parameter.substr(0, parameter.rfind("." + name + "."));
}

std::string as_named(const std::string& parameter, const std::string& name,
                     const std::string& other) {
  const size_t at = parameter.rfind("." + name + ".");
  return parameter.substr(0, at + 1) + other + parameter.substr(at + 1 + name.size());
}

std::string updates_key(const std::string& model, const std::string& adapter) {
  return "updates." + model + "." + adapter;
}

std::vector<RecordedAdapter> adapters_in(const ResultConfig& settings) {
  std::map<std::pair<std::string, size_t>, RecordedAdapter> entries;
  for (const auto& [text, value] : settings) {
    Place at;
    if (!parse(text, at)) continue;
    RecordedAdapter& entry = entries[{at.model, at.index}];
    entry.model = at.model;
    if (at.key == "type")
      entry.type = unquoted(value);
    else if (at.key == "name")
      entry.name = unquoted(value);
    else
      entry.options[at.key] = value;
  }
  std::vector<RecordedAdapter> all;
  for (auto& [place, entry] : entries) {
    if (entry.name.empty()) entry.name = entry.type;
    all.push_back(std::move(entry));
  }
  return all;
}

void add_adapters(ResultConfig& settings, const std::string& model_path,
                  const std::vector<RecordedAdapter>& entries) {
  size_t next = 0;
  for (const RecordedAdapter& entry : adapters_in(settings)) next += entry.model == model_path;
  for (const RecordedAdapter& entry : entries) {
    settings[key_of(model_path, next, "type")] = config::toml_text(entry.type);
    settings[key_of(model_path, next, "name")] = config::toml_text(entry.name);
    for (const auto& [key, value] : entry.options) settings[key_of(model_path, next, key)] = value;
    ++next;
  }
}

void keep_adapters(ResultConfig& settings, const std::string& model_path,
                   const std::function<bool(const std::string&)>& keep) {
  std::vector<RecordedAdapter> kept;
  for (RecordedAdapter& entry : adapters_in(settings))
    if (entry.model == model_path && keep(entry.name)) kept.push_back(std::move(entry));
  std::erase_if(settings,
                [&](const auto& one) { return starts_with(one.first, model_path + kList); });
  add_adapters(settings, model_path, kept);
}

void leave_adapter_field(config::ModelConfig& model) {
  model.adapter_field.clear();
  model.keys.set_text("adapter_field", "", model.keys.origin("adapter_field"));
}

void leave_adapter_field(ResultConfig& settings, const std::string& model_path) {
  const auto field = settings.find(model_path + ".adapter_field");
  if (field != settings.end()) field->second = "\"\"";
}

void leave_metrics(config::Experiment& e, const std::vector<std::string>& adapters) {
  const auto of_one = [&](const std::string& metric) {
    return std::any_of(adapters.begin(), adapters.end(),
                       [&](const std::string& name) { return ends_with(metric, "." + name); });
  };
  for (auto& [path, keys] : e.sections) {
    if (path == "checkpoint" && of_one(keys.get_text("best")))
      keys.set_text("best", "", keys.origin("best"));
    if (path == "evaluate.early_stop" && of_one(keys.get_text("metric"))) {
      keys.set_text("metric", "", keys.origin("metric"));
      keys.set_int("patience", 0, keys.origin("patience"));
    }
  }
}

void leave_fixed_adapter(config::Experiment& e) {
  const auto has_it = [&](const config::ModelConfig& model) {
    return !model.adapter_field.empty() && config::adapter_number(model, e.evaluate.adapter);
  };
  if (std::any_of(e.models.begin(), e.models.end(), has_it)) return;
  e.evaluate.adapter.clear();
  for (auto& [path, keys] : e.sections)
    if (path == "evaluate") keys.set_text("adapter", "", keys.origin("adapter"));
}

void drop_empty_groups(config::ModelConfig& model, const std::vector<std::string>& parameters) {
  const auto fits_none = [&](const std::string& pattern) {
    return std::none_of(parameters.begin(), parameters.end(),
                        [&](const std::string& name) { return glob_match(pattern, name); });
  };
  const auto renames_none = [&](const std::string& rule) {
    return !is_used(rule, model.name, parameters);
  };
  if (std::erase_if(model.load_names, renames_none) > 0)
    model.keys.set_texts("load_names", model.load_names, model.keys.origin("load_names"));
  if (std::erase_if(model.load_missing, fits_none) > 0)
    model.keys.set_texts("load_missing", model.load_missing, model.keys.origin("load_missing"));
  if (!model.optimizer) return;
  std::erase_if(model.optimizer->groups, [&](const config::GroupConfig& group) {
    return std::any_of(group.match.begin(), group.match.end(), fits_none);
  });
}

}  // namespace plait::session
