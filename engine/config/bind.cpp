#include "engine/config/bind.hpp"

#include <plait/comm.h>
#include <plait/dataset.h>
#include <plait/device.h>
#include <plait/layer.h>
#include <plait/optimizer.h>
#include <plait/peft.h>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/text.hpp"
#include "engine/config/schema.hpp"

namespace plait::config {
namespace {

std::string template_line(const plait_option& option, const std::string& name) {
  const bool type = option.name == std::string_view("type");
  const std::string value = type                   ? toml_text(name)
                            : option.default_value ? option.default_value
                                                   : "\"???\"";
  return option_comment(option) + option.name + " = " + value + "\n";
}

class Binder {
 public:
  Binder(const Experiment& experiment, const Catalog& catalog, bool absolute_paths)
      : experiment_(experiment), catalog_(catalog), absolute_(absolute_paths) {}

  std::string bind() {
    out_ = "# The complete experiment: every key with its value, defaults written out.\n";
    for (const auto& [path, set] : experiment_.sections) bind_section(path, set);
    for (const ModelConfig& model : experiment_.models) bind_model(model);
    for (const DatasetConfig& dataset : experiment_.datasets) bind_dataset(dataset);
    if (experiment_.tokenizer) {
      header("tokenizer");
      item(*experiment_.tokenizer);
    }
    bind_chosen(PLAIT_KIND_DEVICE, "device", experiment_.run.device, experiment_.device);
    bind_chosen(PLAIT_KIND_COMM, "comm", experiment_.topology.backend, experiment_.comm);
    return std::move(out_);
  }

 private:
  void header(const std::string& path, bool of_list = false) {
    out_ += "\n" + (of_list ? "[[" + path + "]]" : "[" + path + "]") + "\n";
  }
  void values(const OptionSet& set, const std::vector<std::string_view>& skip = {}) {
    out_ += set.to_toml(true, skip, absolute_);
  }

  void bind_section(const std::string& path, const OptionSet& set) {
    out_ += "\n# " + std::string(section(path).help) + "\n[" + path + "]\n";
    if (path != "plugins" || !absolute_) return values(set);
    values(set, {"paths"});
    std::vector<std::string> paths;
    for (const std::string& one : experiment_.plugins.paths)
      paths.push_back(toml_text(rooted_path(join_path(experiment_.folder, one))));
    out_ +=
        option_comment(*section(path).options.find("paths")) + "paths = [" + join(paths) + "]\n";
  }

  // Keys of the engine, then options of the item; "parallel" may be declared by both.
  void item(const ItemConfig& item) {
    std::vector<std::string_view> shared;
    for (const OptionValue& value : item.keys.values())
      if (item.options.declares(value.declared->name)) shared.emplace_back(value.declared->name);
    values(item.keys, shared);
    values(item.options);
  }

  void bind_model(const ModelConfig& model) {
    header(model.path);
    values(model.keys);
    for (const LayerConfig& layer : model.layers) {
      header(model.path + ".layers", true);
      item(layer);
      std::vector<std::string> ties;
      for (const TieConfig& tie : layer.tie)
        ties.push_back(toml_key(tie.own) + " = " + toml_text(tie.full));
      if (!ties.empty())
        out_ += "# parameters shared with another layer\ntie = {" + join(ties) + "}\n";
    }
    for (const AdapterConfig& adapter : model.adapters) {
      header(model.path + ".adapters", true);
      item(adapter);
    }
    if (model.adapters.empty()) absent_adapters(model.path + ".adapters");
    for (size_t i = 0; i < model.losses.size(); ++i) {
      const std::string path = loss_path(model, i);
      header(path.substr(0, path.find('[')), path.ends_with(']'));
      item(model.losses[i]);
    }
    for (const MetricConfig& metric : model.metrics) {
      header(table_path(model, "metrics"), true);
      item(metric);
    }
    if (model.optimizer) bind_optimizer(table_path(model, "optimizer"), *model.optimizer);
  }

  // A table that the experiment does without, as comments. name: what stands for its type; more:
  // further lines.
  void absent(const std::string& help, const std::string& header, OptionView keys,
              const std::string& name = {}, const std::string& more = {}) {
    std::string text = header + "\n";
    for (uint32_t i = 0; i < keys.size(); ++i) text += template_line(keys[i], name);
    text += more;
    out_ += "\n# " + help + "; not set\n";
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      out_ += "# " + text.substr(at, end + 1 - at);
      at = end + 1;
    }
  }

  // With the options of every method: a line for each that has some.
  void absent_adapters(const std::string& path) {
    const std::vector<std::string> names = catalog_.item_names(PLAIT_KIND_PEFT);
    if (names.empty()) return;
    std::string more;
    for (const std::string& name : names) {
      CatalogItem method;
      if (!catalog_.find_item(PLAIT_KIND_PEFT, name, method)) continue;
      std::vector<std::string> options;
      for (uint32_t i = 0; i < method.options.size(); ++i) {
        const plait_option& option = method.options[i];
        options.push_back(std::string(option.name) + " = " +
                          (option.default_value ? option.default_value : "\"???\""));
      }
      if (!options.empty()) more += "# options of " + name + ": " + join(options) + "\n";
    }
    absent("few parameters that are trained beside the model's own, which are frozen then: " +
               join(names),
           "[[" + path + "]]", adapter_keys(), names.front(), more);
  }

  void bind_optimizer(const std::string& path, const OptimizerConfig& optimizer) {
    header(path);
    item(optimizer);
    bind_schedule(path, optimizer.schedule);
    if (const auto names = catalog_.item_names(PLAIT_KIND_SCHEDULE);
        !optimizer.schedule && !names.empty())
      absent("the learning rate over the run: " + join(names), "[" + path + ".schedule]",
             schedule_keys(), names.front());
    if (optimizer.groups.empty())
      absent("settings of some of the parameters", "[[" + path + ".groups]]", group_keys());
    for (const GroupConfig& group : optimizer.groups) {
      header(path + ".groups", true);
      item(group);
      bind_schedule(path + ".groups", group.schedule);
    }
  }

  void bind_schedule(const std::string& owner, const std::optional<ItemConfig>& schedule) {
    if (!schedule) return;
    header(owner + ".schedule");
    item(*schedule);
  }

  void bind_dataset(const DatasetConfig& dataset) {
    const std::string path = "data." + toml_key(dataset.name);
    header(path);
    item(dataset);
    const DatasetConfig* train = experiment_.dataset("train");
    if (dataset.normalize.empty() && train && !train->normalize.empty())
      out_ += "# not that of [data.train]\nnormalize = {}\n";
    bool own = false;
    for (const NormalizeConfig& one : dataset.normalize) {
      if (one.inherited) continue;  // also by what is written here
      own = true;
      header(path + ".normalize." + toml_key(one.field));
      values(one.keys);
    }
    if (!own)
      absent("numbers of a field become (x / divide - mean) / std",
             "[" + path + ".normalize.FIELD]", normalize_keys());
  }

  // The options of the item named by a section's key.
  void bind_chosen(const char* kind, const char* table, const std::string& name,
                   const Node& given) {
    CatalogItem item;
    const bool known = catalog_.find_item(kind, name, item);
    if (known ? item.options.size() == 0 && given.absent() : given.absent()) return;
    header(table);
    if (known) {
      Problems none;
      // run.threads is not written here, so that the key keeps its meaning of "threads" being
      // unset.
      const OptionSet set = OptionSet::check(given, item.options, {}, table, PathResolver(), none);
      std::vector<std::string_view> skip;
      if (!set.given("threads")) skip.emplace_back("threads");
      return values(set, skip);
    }
    for (const Node::Entry& entry : given.entries())
      out_ += toml_key(entry.key) + " = " + entry.value.toml() + "\n";
  }

  const Experiment& experiment_;
  const Catalog& catalog_;
  bool absolute_;
  std::string out_;
};

}  // namespace

std::string table_path(const ModelConfig& model, const std::string& table) {
  return model.path == "model" ? table : model.path + "." + table;
}

std::string loss_path(const ModelConfig& model, size_t i) {
  return model.losses.size() == 1 ? table_path(model, "loss")
                                  : table_path(model, "losses") + "[" + std::to_string(i) + "]";
}

std::string bind(const Experiment& experiment, const Catalog& catalog, bool absolute_paths) {
  return Binder(experiment, catalog, absolute_paths).bind();
}

}  // namespace plait::config
