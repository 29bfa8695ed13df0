#include "engine/config/loader.hpp"

#include <plait/comm.h>
#include <plait/device.h>
#include <plait/tokenizer.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/text.hpp"
#include "engine/config/near_item.hpp"
#include "engine/config/near_key.hpp"
#include "engine/config/option_read.hpp"
#include "engine/config/schema.hpp"
#include "engine/config/sizes.hpp"

namespace plait::config {
namespace {

constexpr std::string_view kTopKeys[] = {"model",   "models", "optimizer", "loss", "losses",
                                         "metrics", "data",   "device",    "comm", "tokenizer"};

constexpr size_t kMostLetters = 128;  // of a name, which may be that of a folder

// Names of the tables directly inside section `path` that are sections themselves.
std::vector<std::string_view> subsections(std::string_view path) {
  std::vector<std::string_view> names;
  for (const Section& s : sections()) {
    const std::string_view other = s.path;
    if (other.size() > path.size() + 1 && other.starts_with(path) && other[path.size()] == '.')
      names.push_back(other.substr(path.size() + 1));
  }
  return names;
}

// The key of that name in a section, of several the first one that may have the value; "" if there
// is none. Where none may have it the value may be the mistake, unless it is a table, or the name
// is that of something else elsewhere: schedule = "gpipe" is of [topology], "cosine" is not.
std::string key_of_section(const Node::Entry& entry, const PathResolver& resolver) {
  std::string first;
  for (const Section& s : sections()) {
    const plait_option* declared = s.options.find(entry.key);
    if (!declared) continue;
    const std::string path = std::string(s.path) + "." + entry.key;
    OptionValue value;
    if (read_option(entry.value, *declared, resolver, value).empty()) return path;
    if (first.empty()) first = path;
  }
  const bool elsewhere = entry.value.kind() == NodeKind::kTable || !usual_path(entry.key).empty();
  return elsewhere ? "" : first;
}

}  // namespace

std::string key_path(const std::string& path, std::string_view key) {
  return path.empty() ? toml_key(key) : path + "." + toml_key(key);
}
std::string index_path(const std::string& path, size_t i) {
  return path + "[" + std::to_string(i) + "]";
}

bool good_name(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kMostLetters &&
         std::all_of(name.begin(), name.end(), good);
}

bool ExperimentLoader::good_path(const std::string& name) const {
  const std::vector<std::string> parts = split(name, '.');
  return name.size() <= kMostLetters &&
         std::all_of(parts.begin(), parts.end(), [](const std::string& p) { return good_name(p); });
}

std::vector<ExperimentLoader::ConfigEntry> ExperimentLoader::entries(const Node& node,
                                                                     const std::string& path,
                                                                     bool single_allowed) {
  std::vector<ConfigEntry> found;
  if (node.absent()) return found;
  if (node.is(NodeKind::kTable) && single_allowed) return {{path, &node}};
  if (!node.is(NodeKind::kArray)) {
    problems_.add(node.origin(), path,
                  std::string("expected a list of tables, found ") + node.kind_name(),
                  "write [[" + path + "]] above each entry");
    return found;
  }
  for (size_t i = 0; i < node.items().size(); ++i) {
    const Node& item = node.items()[i];
    if (item.is(NodeKind::kTable))
      found.push_back({index_path(path, i), &item});
    else
      problems_.add(item.origin(), index_path(path, i),
                    std::string("expected a table, found ") + item.kind_name());
  }
  return found;
}

ExperimentLoader::ConfigEntry ExperimentLoader::one_of(const ConfigEntry& a, const ConfigEntry& b) {
  if (*a.node && *b.node)
    problems_.add(b.node->origin(), b.path,
                  "given twice, here and as " + a.path + " (" + a.node->origin().text() + ")",
                  "keep one of them");
  return *a.node ? a : b;
}

void ExperimentLoader::find_unknown_at_top() {
  std::set<std::string> names(std::begin(kTopKeys), std::end(kTopKeys));
  for (const Section& s : sections())
    if (std::string_view(s.path).find('.') == std::string_view::npos) names.insert(s.path);
  const std::vector<std::string> known(names.begin(), names.end());
  for (const Node::Entry& entry : document_.root.entries()) {
    if (names.contains(entry.key)) continue;
    // A key at the top of the file, as in steps = 5, is probably the key of that name in a section.
    std::string meant = usual_path(entry.key);
    if (meant.empty()) meant = near_key(entry.key, known);
    if (const std::string key = key_of_section(entry, resolver_); !key.empty()) meant = key;
    if (entry.key == "extends") {  // of a file it is gone by now
      problems_.add(entry.origin, "extends", "is a key of files, which an override cannot add",
                    "write a file that begins with extends = [\"base.toml\"], with this value");
      continue;
    }
    problems_.add(entry.origin, toml_key(entry.key),
                  "unknown key '" + entry.key + "'" + did_you_mean(meant),
                  "known keys: " + join(known));
  }
}

OptionSet ExperimentLoader::read_section(std::string_view path) {
  const Node* node = &document_.root;
  for (const std::string& key : split(path, '.')) node = &node->find(key);
  // A missing section is treated as an empty one, so its required keys are reported as missing from
  // the file.
  const Node empty = Node::table(document_.root.origin());
  const std::vector<std::string_view> under = subsections(path);
  return OptionSet::check(*node ? *node : empty, section(path).options, under, std::string(path),
                          resolver_, problems_);
}

void ExperimentLoader::read_sections(Experiment& to) {
  for (const Section& s : sections()) {
    to.sections.emplace_back(s.path, read_section(s.path));
    s.read(to.sections.back().second, to);
  }
  allow_ = to.plugins.allow;
  generates_only_ = to.generate.only;
  check_numbers(to);
}

// Where `fields` stand for the samples, nothing says how many steps the epochs come to: run.steps
// does. Else one of the two is given, and an override replaces what a file says.
void ExperimentLoader::check_length(Experiment& of) {
  if (of.run.steps <= 0 || of.run.epochs <= 0) return;
  const DatasetConfig* train = of.dataset("train");
  if (train && !train->keys.get_texts("fields").empty()) return;
  for (auto& [path, set] : of.sections) {
    if (path != "run") continue;
    const Origin steps = set.origin("steps"), epochs = set.origin("epochs");
    if (steps.line == 0 && epochs.line > 0) {
      of.run.epochs = 0;
      set.set_int("epochs", 0, steps);
    } else if (epochs.line == 0 && steps.line > 0) {
      of.run.steps = 0;
      set.set_int("steps", 0, epochs);
    } else {
      problems_.add(set.origin("steps"), "run.steps",
                    "given together with run.epochs (" + set.origin("epochs").text() + ")",
                    "keep one of them; the override ~run.steps or ~run.epochs removes one");
    }
  }
}

// Checks rules that relate several keys.
void ExperimentLoader::check_numbers(Experiment& to) {
  const auto origin = [&](std::string_view section, std::string_view key) {
    for (const auto& [path, set] : to.sections)
      if (path == section) return set.origin(key);
    return Origin::none();
  };
  if (!good_name(to.run.name) && !to.run.name.empty() && to.run.name != "???")
    problems_.add(origin("run", "name"), "run.name",
                  to.run.name.size() > kMostLetters
                      ? std::to_string(to.run.name.size()) + " characters cannot name a folder"
                      : "'" + to.run.name + "' cannot name a folder",
                  "use letters, digits, _ and -, at most " + std::to_string(kMostLetters));
  if (to.topology.recompute == "budget" && to.topology.recompute_budget <= 0)
    problems_.add(origin("topology", "recompute"), "topology.recompute",
                  "\"budget\" needs topology.recompute_budget, found none",
                  "set it to the MiB of activations that a program may hold");
  check_open_axes(to, problems_);
  const BatchConfig& sizes = to.batch;
  const bool given = sizes.global != 0 || (sizes.micro > 0 && sizes.accumulation > 0);
  if (!given && !to.generate.only && !problems_.touch("batch.global")) {
    const Node& batch = document_.root.find("batch");
    const Node& found = batch.find("global");
    problems_.add((found   ? found
                   : batch ? batch
                           : document_.root)
                      .origin(),
                  "batch.global", found ? "found 0, expected 1 or more" : "required key is missing",
                  "set it to the samples of a step, over all ranks, or give both batch.micro and "
                  "batch.accumulation, unless generate.only = true");
  }
  if (!has_open_axis(to.topology)) derive_batch(to, problems_);
}

void ExperimentLoader::check_allowed(const CatalogItem& item, const Origin& origin,
                                     const std::string& path) {
  if (allow_.empty() || std::find(allow_.begin(), allow_.end(), item.plugin) != allow_.end())
    return;
  problems_.add(
      origin, path,
      "'" + item.name + "' comes from plugin '" + item.plugin + "', which is not in plugins.allow",
      "add it there; allowed are " + join(allow_));
}

// Checks an item that is named by a key of a section ("auto": the engine chooses), with a table of
// its options beside the sections.
bool ExperimentLoader::check_selected(const Experiment& of, const SelectedItem& c) {
  if (c.options && !c.options.is(NodeKind::kTable)) {
    problems_.add(c.options.origin(), c.table,
                  std::string("expected a table of the ") + c.word + "'s options, found " +
                      c.options.kind_name(),
                  std::string("name the ") + c.word + " with " + c.section + "." + c.key);
    return false;
  }
  if (c.name == "auto" || c.name.empty()) return false;
  CatalogItem item;
  Origin at = Origin::none();
  const std::string key = std::string(c.section) + "." + c.key;
  for (const auto& [path, set] : of.sections)
    if (path == c.section) at = set.origin(c.key);
  if (catalog_.find_item(c.kind, c.name, item)) {
    check_allowed(item, at, key);
    return true;
  }
  const std::vector<std::string> names = catalog_.item_names(c.kind);
  problems_.add(at, key,
                std::string("unknown ") + c.word + " '" + c.name + "'" +
                    did_you_mean(near_item(c.name, c.kind, names, catalog_)),
                std::string("known ") + c.word + "s: " + join(names) + catalog_.load_summary());
  return false;
}

void ExperimentLoader::check_device(const Experiment& of) {
  if (check_selected(
          of, {PLAIT_KIND_DEVICE, "device", "run", "device", "device", of.run.device, of.device}))
    device_options(of, catalog_, of.run.device, resolver_, problems_);
}

void ExperimentLoader::check_comm(const Experiment& of) {
  if (check_selected(of, {PLAIT_KIND_COMM, "backend", "topology", "backend", "comm",
                          of.topology.backend, of.comm}))
    comm_options(of, catalog_, of.topology.backend, resolver_, problems_);
}

namespace {

// The metrics that show losses of one adapter, as the tracer names them.
std::vector<std::string> losses_of_adapter(const Experiment& of, const ModelConfig& model,
                                           const std::string& adapter) {
  if (model.frozen) return {};
  size_t n = 0;
  for (const ModelConfig& m : of.models) n += m.frozen ? 0 : m.losses.size();
  const std::string begin = of.models.size() == 1 ? "loss." : "loss." + model.name + ".";
  std::vector<std::string> names;
  for (const LossConfig& loss : model.losses)
    names.push_back(begin + (n > 1 ? loss.name + "." : "") + adapter);
  return names;
}

}  // namespace

// section.key names a metric of the evaluation, or the loss.
void ExperimentLoader::check_watched(const Experiment& of, const char* section, const char* key,
                                     const std::string& metric) {
  if (document_.root.find("data").find("eval").absent())
    add_problem(of, section, key, "there is no [data.eval] to measure it on",
                "add one, or remove the key");
  std::set<std::string> names{"loss"};
  for (const ModelConfig& model : of.models) {
    const auto known = [&](const std::string& name) {
      names.insert(name);
      names.insert(model.name + "." + name);
    };
    for (const MetricConfig& m : model.metrics) known(m.name);
    if (!model.adapter_field.empty())
      for (const std::string& adapter : adapter_names(model)) {
        for (const MetricConfig& m : model.metrics) known(m.name + "." + adapter);
        for (const std::string& loss : losses_of_adapter(of, model, adapter)) names.insert(loss);
      }
    for (const LossConfig& l : model.losses) {
      if (model.losses.size() == 1 && of.models.size() == 1) continue;
      names.insert("loss." + (of.models.size() == 1 ? "" : model.name + ".") + l.name);
    }
  }
  if (!names.contains(metric))
    add_problem(of, section, key,
                "there is no metric '" + metric + "'" + did_you_mean(nearest(metric, names)),
                "known are: " + join(names));
}

void ExperimentLoader::add_problem(const Experiment& of, const std::string& section,
                                   const char* key, const std::string& message,
                                   const std::string& hint) {
  for (const auto& [path, set] : of.sections)
    if (path == section) problems_.add(set.origin(key), path + "." + key, message, hint);
}

void ExperimentLoader::check_watched(const Experiment& of) {
  constexpr char kEarlyStop[] = "evaluate.early_stop";
  const EvaluateConfig& e = of.evaluate;
  if (!e.stop_metric.empty())
    check_watched(of, kEarlyStop, "metric", e.stop_metric);
  else if (e.patience > 0)
    add_problem(of, kEarlyStop, "patience", "there is no metric to watch",
                "name one with evaluate.early_stop.metric");
  if (!of.checkpoint.best.empty() && of.checkpoint.best != kNoBest)
    check_watched(of, "checkpoint", "best", of.checkpoint.best);
}

// evaluate.adapter names one of each model whose samples choose.
void ExperimentLoader::check_adapter(const Experiment& of) {
  const std::string& name = of.evaluate.adapter;
  if (name.empty()) return;
  bool chosen = false;
  for (const ModelConfig& model : of.models) {
    if (model.adapter_field.empty()) continue;
    chosen = true;
    const std::vector<std::string> names = adapter_names(model);
    if (!adapter_number(model, name))
      add_problem(of, "evaluate", "adapter",
                  "'" + model.name + "' has no adapter '" + printable(name) + "'" +
                      did_you_mean(nearest(name, names)),
                  "there are: " + join(names) + "; and \"" + kNoAdapter + "\" for the model alone");
  }
  if (!chosen)
    add_problem(of, "evaluate", "adapter",
                "names '" + printable(name) + "', and samples choose no adapters",
                "remove it, or let them choose, with model.adapter_field");
}

void ExperimentLoader::read_tokenizer(Experiment& to) {
  const Node& table = document_.root.find("tokenizer");
  if (table.absent()) return;
  if (!table.is(NodeKind::kTable))
    return problems_.add(table.origin(), "tokenizer",
                         std::string("expected a table, found ") + table.kind_name(),
                         "write [tokenizer] with its type below");
  read_item({"tokenizer", &table}, PLAIT_KIND_TOKENIZER, tokenizer_keys(), {},
            to.tokenizer.emplace());
}

Experiment ExperimentLoader::load() {
  Experiment experiment;
  experiment.origin = document_.root.origin();
  experiment.folder = document_.folder;
  find_unknown_at_top();
  read_sections(experiment);
  experiment.models = read_models();
  experiment.datasets = read_datasets();
  check_length(experiment);
  experiment.device = document_.root.find("device");
  check_device(experiment);
  experiment.comm = document_.root.find("comm");
  check_comm(experiment);
  check_watched(experiment);
  check_adapter(experiment);
  read_tokenizer(experiment);
  return experiment;
}

}  // namespace plait::config
