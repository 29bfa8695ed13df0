#include "engine/plan/check.hpp"
#include "engine/plan/checkpoint_blocks.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/text.hpp"
#include "engine/config/written_path.hpp"
#include "engine/plan/field_texts.hpp"
#include "engine/plan/normalization.hpp"
#include "kit/by_target.hpp"

namespace plait::plan {
config::Origin origin_of(const config::Experiment& e, const std::string& key) {
  const size_t dot = key.rfind('.');
  for (const auto& [path, set] : e.sections) {
    if (path != key.substr(0, dot)) continue;
    if (dot != std::string::npos) return set.origin(key.substr(dot + 1));
    // A fault of the section as a whole is reported where a size was set.
    for (const char* size : {"pipeline", "data", "tensor"})
      if (set.given(size)) return set.origin(size);
    return e.origin;
  }
  return config::Origin::none();
}

namespace {

bool is_current_folder(FileSystem& files, const std::string& folder) {
  try {
    return files.real_path(folder) == files.real_path(".");
  } catch (const Error&) {
    return false;  // one of them is not there
  }
}

void add_missing(const config::DatasetConfig& d, const config::GivenPath& value,
                 const config::PathResolver& resolver, config::Problems& problems) {
  const std::string key = d.path + "." + value.key;
  if (const auto sets = resolver.in_sets(value.given); !sets.empty())
    return problems.add(value.origin, key,
                        "file '" + value.given + "' is in several folders: " + join(sets),
                        "name the folder you mean: --data FOLDER, or " + key + " = \"" +
                            name_of(folder_of(sets[0])) + "/" + value.given + "\"",
                        PLAIT_ERR_NOT_FOUND);
  const bool looked_for = resolver.candidates(value.given)[0] != value.given;
  std::vector<std::string> folders = config::folders_of(resolver, value.origin);
  // The current folder is named once, however it was given.
  std::erase_if(folders, [&](const std::string& folder) {
    return folder == "." || (resolver.files && is_current_folder(*resolver.files, folder));
  });
  folders.emplace_back("the current folder");
  problems.add(
      value.origin, key,
      "file '" + value.given + "' not found" + (looked_for ? " in " + join(folders) : ""),
      looked_for ? "pass its folder with --data DIR (or set PLAIT_DATA)" : "check the path",
      PLAIT_ERR_NOT_FOUND);
}

void add_unopened(const config::DatasetConfig& d, const Error& e,
                  const config::PathResolver& resolver, config::Problems& problems) {
  if (!fields_given(d).empty())  // nothing was opened
    return problems.add(d.keys.origin("fields"), d.path + ".fields", e.text(), "", e.code());
  const auto missing = d.options.missing_paths(resolver);
  for (const config::GivenPath& value : missing) add_missing(d, value, resolver, problems);
  if (!missing.empty()) return;
  std::string text = e.full_text();
  // A file that cannot be read is no fault of the plugin that says so.
  if (e.cause() && e.code() != PLAIT_ERR_PLUGIN && e.code() != PLAIT_ERR_DEVICE)
    text = e.cause()->full_text();
  // The plugin's text names the faulty path, which one of the keys has given.
  config::Origin origin = d.origin;
  std::string key = d.path;
  for (const config::GivenPath& value : d.options.paths())
    if (text.find("'" + value.resolved + "'") != std::string::npos) {
      origin = value.origin;
      key = d.path + "." + value.key;
    }
  // Or it says of which option the value is at fault: "target names column 'z', which ...".
  for (const config::OptionValue& value : d.options.values()) {
    const std::string name = value.declared->name;
    if (!d.options.given(name) || text.find("': " + name + " names ") == std::string::npos)
      continue;
    origin = d.options.origin(name);
    key = d.path + "." + name;
  }
  problems.add(origin, key, text, "", e.code());
}

// The first few names, and the number of the others.
std::string some(std::vector<std::string> names) {
  constexpr size_t kShown = 20;
  const size_t n = names.size();
  if (n > kShown) names.resize(kShown);
  return join(names) + (n > kShown ? strf(" and %zu more", n - kShown) : "");
}

// The patterns that match none of these names.
std::vector<std::string> unmatched(const std::vector<std::string>& patterns,
                                   const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& pattern : patterns)
    if (std::none_of(names.begin(), names.end(),
                     [&](const auto& n) { return glob_match(pattern, n); }))
      all.push_back(pattern);
  return all;
}

void check_patterns(const config::ModelConfig& model, const std::vector<std::string>& names,
                    config::Problems& problems) {
  for (const config::GroupConfig& group : model.optimizer->groups)
    for (const std::string& pattern : unmatched(group.match, names))
      problems.add(group.keys.origin("match"), group.path + ".match",
                   "pattern '" + pattern + "' matches no parameter of model '" + model.name + "'",
                   "the parameters are: " + some(names));
}

void check_overlaps(const config::ModelConfig& model, const std::vector<std::string>& names,
                    config::Problems& problems) {
  const auto& groups = model.optimizer->groups;
  std::map<std::pair<size_t, size_t>, std::vector<std::string>> both;  // (later, first)
  for (const std::string& name : names) {
    size_t first = groups.size();
    for (size_t i = 0; i < groups.size(); ++i) {
      if (!groups[i].holds(name)) continue;
      if (first == groups.size())
        first = i;
      else
        both[{i, first}].push_back(name);
    }
  }
  for (const auto& [pair, sharded] : both)
    problems.add(
        groups[pair.first].keys.origin("match"), groups[pair.first].path + ".match",
        "matches parameters that belong to " + groups[pair.second].path + ": " + some(sharded),
        "make their patterns exclude each other");
}

}  // namespace

bool add_topology_errors(const config::Experiment& e,
                         const std::vector<topology::TopologyError>& errors,
                         config::Problems& problems) {
  for (const topology::TopologyError& f : errors)
    problems.add(origin_of(e, f.key), f.key, f.message, f.hint);
  return errors.empty();
}

std::shared_ptr<Dataset> open_dataset(const config::DatasetConfig& config,
                                      const plugin::Registry& registry,
                                      const config::PathResolver& resolver,
                                      config::Problems& problems, bool metadata) {
  if (problems.touch(config.path)) return nullptr;
  try {
    auto dataset = std::make_shared<Dataset>(config, registry, metadata);
    check_normalize(config, *dataset, problems);
    return dataset;
  } catch (const Error& e) {
    if (e.code() == PLAIT_ERR_MEMORY) throw;
    add_unopened(config, e, resolver, problems);
    return nullptr;
  }
}

namespace {

void check_fp8_patterns(const Plan& plan, config::Problems& problems) {
  if (plan.experiment.precision.products != "fp8") return;
  std::vector<std::string> names;
  for (const Parameter& p : plan.parameters) names.push_back(p.name);
  for (const std::string& pattern : unmatched(plan.experiment.precision.fp8_except, names))
    problems.add(origin_of(plan.experiment, "precision.fp8.except"), "precision.fp8.except",
                 "pattern '" + pattern + "' matches no parameter",
                 "the parameters are: " + some(names));
}

// Whether an entry gives a target a parameter; others may have its name.
bool has_parameters(const Plan& plan, const Tracer& tracer, const config::ModelConfig& model,
                    const config::AdapterConfig& adapter) {
  for (const AdaptedTarget& t : tracer.adapted_targets()) {
    if (t.model != model.name || !adapter.holds(t.name)) continue;
    for (const std::string& of : {t.name, t.weight})
      for (const Parameter& p : plan.parameters)
        if (p.adapter == adapter.name && p.model == model.name &&
            starts_with(p.name, of + "." + adapter.name + "."))
          return true;
  }
  return false;
}

// Options with values for targets by name: their patterns are compared with what the adapter holds.
bool check_by_target(const config::AdapterConfig& adapter, const std::vector<std::string>& targets,
                     config::Problems& problems) {
  bool sound = true;
  for (const config::OptionValue& option : adapter.options.values()) {
    if (!(option.declared->flags & PLAIT_OPT_BY_TARGET)) continue;
    const std::string name = option.declared->name;
    const auto add = [&](const std::string& what, const std::string& hint) {
      sound = false;
      problems.add(adapter.options.origin(name), adapter.path + "." + name, what, hint);
    };
    for (const std::string& text : adapter.options.get_texts(name)) {
      const auto one = kit::by_target(text);
      if (!one) {
        add("found '" + text + "', expected PATTERN=VALUE",
            "for instance \"" + (targets.empty() ? "*" : targets.front()) + "=16\"");
      } else if (const std::string pattern(one->pattern); !unmatched({pattern}, targets).empty()) {
        add("pattern '" + pattern + "' matches nothing that this adapter changes" +
                did_you_mean(nearest(pattern, targets)),
            "it changes: " + some(targets));
      }
    }
  }
  return sound;
}

// The weights of experts that the adapter holds and its method does not take.
std::vector<std::string> experts_left_out(const Plan& plan, const Tracer& tracer,
                                          const config::ModelConfig& model,
                                          const config::AdapterConfig& adapter) {
  std::vector<std::string> names;
  if (plan.registry->peft(adapter.type).targets & PLAIT_PEFT_GROUPED) return names;
  for (const AdapterTarget& t : tracer.adapter_targets())
    if (t.model == model.name && (t.what & PLAIT_PEFT_GROUPED) && adapter.holds(t.name))
      names.push_back(t.name);
  return names;
}

// "dora changes no weights of experts, methods that do: lora", of the methods that are loaded.
std::string who_changes_experts(const Plan& plan, const std::string& type) {
  std::vector<std::string> methods;
  for (const std::string& name : plan.registry->item_names(PLAIT_KIND_PEFT))
    if (plan.registry->peft(name).targets & PLAIT_PEFT_GROUPED) methods.push_back(name);
  return type + " changes no weights of experts, " +
         (methods.empty() ? "and no method that is loaded does"
                          : "methods that do: " + join(methods));
}

// Its patterns are compared with the names of what its method can change. False: it has a problem.
bool check_adapter(const Plan& plan, const Tracer& tracer, const config::ModelConfig& model,
                   const config::AdapterConfig& adapter, config::Problems& problems) {
  if (problems.touch(adapter.path)) return false;
  std::vector<std::string> names;
  for (const AdapterTarget& target : tracer.adapter_targets())
    if (target.model == model.name && (plan.registry->peft(adapter.type).targets & target.what))
      names.push_back(target.name);
  std::vector<std::string> excludable =
      names;  // experts, too, which `match` may name beside others
  for (const AdapterTarget& target : tracer.adapter_targets())
    if (target.model == model.name && (target.what & PLAIT_PEFT_GROUPED))
      excludable.push_back(target.name);
  std::vector<std::string> held;
  std::copy_if(names.begin(), names.end(), std::back_inserter(held),
               [&](const std::string& name) { return adapter.holds(name); });
  bool sound = held.empty() || check_by_target(adapter, held, problems);
  const std::vector<std::string> experts = experts_left_out(plan, tracer, model, adapter);
  for (const char* key : {"match", "exclude"})
    for (const std::string& pattern :
         key[0] == 'm' ? unmatched(adapter.match, names) : unmatched(adapter.exclude, excludable)) {
      sound = false;
      problems.add(adapter.keys.origin(key), adapter.path + "." + key,
                   "pattern '" + pattern + "' matches nothing that " + adapter.type +
                       " can change" + did_you_mean(nearest(pattern, names)),
                   !unmatched({pattern}, experts).empty()
                       ? (names.empty() ? "this model has nothing of that kind"
                                        : "it can change: " + some(names))
                       : who_changes_experts(plan, adapter.type));
    }
  const bool is_there = has_parameters(plan, tracer, model, adapter);
  if (sound && !is_there)
    problems.add(adapter.origin, adapter.path, "adapter '" + adapter.name + "' changes nothing",
                 held.empty() ? "`exclude` leaves nothing of what `match` matches"
                              : adapter.type + " finds nothing to change in " + some(held) +
                                    "; see plait plugins " + adapter.type);
  return sound && is_there;
}

// The model's own parameters. False: a pattern matches none.
bool check_trained(const Plan& plan, const config::ModelConfig& model, config::Problems& problems) {
  std::vector<std::string> names;
  for (const Parameter& p : plan.parameters)
    if (p.model == model.name && p.adapter.empty()) names.push_back(p.name);
  const std::vector<std::string> strays = unmatched(model.train, names);
  for (const std::string& pattern : strays)
    problems.add(model.keys.origin("train"), model.path + ".train",
                 "pattern '" + pattern + "' matches no parameter of the model's own" +
                     did_you_mean(nearest(pattern, names)),
                 "they are: " + some(names) +
                     (model.adapters.empty() ? "" : "; those of adapters are always trained"));
  return strays.empty();
}

// Parameters that weights may lack: of the model, or of one of its adapters. A plan that only
// generates has a part of them.
template <class Owner>
void check_missing(const Plan& plan, const Owner& of,
                   const std::function<bool(const Parameter&)>& holds, config::Problems& problems) {
  if (plan.experiment.generate.only) return;
  std::vector<std::string> names;
  for (const Parameter& p : plan.parameters)
    if (holds(p)) names.push_back(p.name);
  for (const std::string& pattern : unmatched(of.load_missing, names))
    problems.add(
        of.keys.origin("load_missing"), of.path + ".load_missing",
        "pattern '" + pattern + "' matches no parameter" + did_you_mean(nearest(pattern, names)),
        "the parameters are: " + some(names));
}

// Checkpoints leave out what is frozen: it must be somewhere else.
void check_base(const Plan& plan, const config::ModelConfig& model, config::Problems& problems) {
  if (!plan.experiment.checkpoint.only_trained() || !model.load.empty()) return;
  for (const Parameter& p : plan.parameters)
    if (p.model == model.name && !is_saved(plan, p))
      return problems.add(model.origin, model.path + ".load",
                          "names no weights, and checkpoint.save = \"trained\" leaves out the "
                          "frozen parameters, '" +
                              p.name + "' among them",
                          "name the weights of the base, or set checkpoint.save = \"all\"");
}

}  // namespace

void check_parameters(const Plan& plan, const Tracer& tracer, config::Problems& problems) {
  const auto failed = [&](const config::ModelConfig& m) { return tracer.failed_in(m.name); };
  const auto& models = plan.experiment.models;
  if (std::none_of(models.begin(), models.end(), failed)) check_fp8_patterns(plan, problems);
  for (const config::ModelConfig& model : plan.experiment.models) {
    if (tracer.failed_in(model.name)) continue;  // its parameters are unknown
    bool trains = false;
    for (const config::AdapterConfig& adapter : model.adapters) {
      trains |= !check_adapter(plan, tracer, model, adapter, problems);  // it would
      check_missing(
          plan, adapter,
          [&](const Parameter& p) { return p.model == model.name && p.adapter == adapter.name; },
          problems);
    }
    check_missing(
        plan, model, [&](const Parameter& p) { return p.model == model.name; }, problems);
    trains |= !check_trained(plan, model, problems);  // the pattern that was meant would
    check_base(plan, model, problems);
    if (!model.optimizer || problems.touch(model.optimizer->path)) continue;
    std::vector<std::string> names;
    for (const Parameter& p : plan.parameters)
      if (p.model == model.name) {
        names.push_back(p.name);
        trains |= !p.frozen;
      }
    check_patterns(model, names, problems);
    check_overlaps(model, names, problems);
    if (!model.frozen && !model.losses.empty() && !trains)
      problems.add(model.origin, model.path, "has a loss but no parameter to train",
                   "add a layer with parameters, name some with `train`, or set frozen = true");
  }
}

void warn_left_out(const Plan& plan, const Tracer& tracer, Log* log) {
  if (!log || plan.rank != 0) return;
  for (const config::ModelConfig& model : plan.experiment.models)
    for (const config::AdapterConfig& adapter : model.adapters) {
      const std::vector<std::string> left = experts_left_out(plan, tracer, model, adapter);
      if (left.empty()) continue;
      log->warn(adapter.keys.origin("match").text() + ": `match` of adapter '" + adapter.name +
                "' names weights of experts, which stay as they are: " + some(left) + "; " +
                who_changes_experts(plan, adapter.type) +
                "; change them by an entry of another method, or name them in `exclude`");
    }
}

void tell_replicated(const Plan& plan, Log* log) {
  if (!log || plan.rank != 0 || plan.grid.tensor() == 1) return;
  std::vector<const Parameter*> few, uneven;  // units: fewer than ranks, or not divided by them
  for (const Parameter& p : plan.parameters)
    if (p.shard_unit > 1 && !p.sharded)
      (p.shape.dims[p.shard_dim] / p.shard_unit < plan.grid.tensor() ? few : uneven).push_back(&p);
  const auto tell = [&](uint32_t level, const std::vector<const Parameter*>& all) {
    if (all.empty()) return;
    const Parameter& p = *all[0];
    const std::string more = all.size() == 1 ? "" : strf(" (and %zu more)", all.size() - 1);
    log->write(level, strf("[plan] parameter '%s'%s is replicated: %lld tensor ranks do not divide "
                           "its %lld units of %lld along dimension %d",
                           p.name.c_str(), more.c_str(), static_cast<long long>(plan.grid.tensor()),
                           static_cast<long long>(p.shape.dims[p.shard_dim] / p.shard_unit),
                           static_cast<long long>(p.shard_unit), p.shard_dim));
  };
  if (few.empty() && uneven.empty() &&
      std::none_of(plan.parameters.begin(), plan.parameters.end(),
                   [](const Parameter& p) { return p.sharded; }))
    log->warn(origin_of(plan.experiment, "topology.tensor").text() +
              strf(": topology.tensor is %lld, and no layer shards a parameter: every tensor rank "
                   "computes the same; give layers `parallel`, or use topology.data",
                   static_cast<long long>(plan.grid.tensor())));
  tell(PLAIT_LOG_DEBUG, few);
  tell(PLAIT_LOG_WARN, uneven);
}

void check_master(config::Experiment& e, config::Problems& problems) {
  config::PrecisionConfig& p = e.precision;
  if (p.master || p.compute == "bf16") return;
  const char* why = p.compute == "f16"
                        ? "weights of f16 alone lose what is below 6e-8 and overflow beyond 65504"
                        : "the weights have the type of compute, there are no copies to do without";
  problems.add(origin_of(e, "precision.master"), "precision.master",
               "is false with compute = \"" + p.compute + "\", expected true: " + why,
               "set compute = \"bf16\", or leave out master");
  p.master = true;
}

void check_states(config::Experiment& e, config::Problems& problems) {
  config::PrecisionConfig& p = e.precision;
  if (p.states == "f32" || p.compute != "f64") return;
  problems.add(origin_of(e, "precision.states"), "precision.states",
               "is \"" + p.states +
                   "\" with compute = \"f64\", expected \"f32\", which then "
                   "stands for f64: f64 is for results without rounding",
               "leave out one of the two");
  p.states = "f32";
}

void check_frozen(config::Experiment& e, config::Problems& problems) {
  config::PrecisionConfig& p = e.precision;
  if (p.products != "fp8" || (p.frozen != "int8" && p.frozen != "nf4")) return;
  problems.add(origin_of(e, "precision.frozen"), "precision.frozen",
               "is \"" + p.frozen + "\" with products = \"fp8\", expected master or compute: " +
                   "products read either 8-bit floats or numbers with scales",
               "leave out one of them");
  p.frozen = "master";
}

void check_split_master(config::Experiment& e, config::Problems& problems) {
  config::PrecisionConfig& p = e.precision;
  if (!p.split_master || (p.compute == "bf16" && p.master)) return;
  const auto report = [&](const std::string& what, const char* hint) {
    problems.add(origin_of(e, "precision.split_master"), "precision.split_master",
                 "is true with " + what, hint);
  };
  if (p.compute == "bf16")
    report(
        "master = false, expected master = true: the weights are bf16 alone, there is nothing "
        "to split",
        "leave out one of the two");
  else
    report("compute = \"" + p.compute + "\", expected \"bf16\": " +
               (p.compute == "f16" ? "the bits of an f16 are not the first of an f32"
                                   : "the weights have no copies of 16 bits"),
           "set compute = \"bf16\", or leave out split_master");
  p.split_master = false;
}

void check_products(config::Experiment& e, config::Problems& problems) {
  config::PrecisionConfig& p = e.precision;
  if (p.products != "fp8" || p.compute != "f64") return;
  problems.add(origin_of(e, "precision.products"), "precision.products",
               "is \"fp8\" with compute = \"f64\", expected \"compute\": products of 8-bit floats "
               "leave nothing of f64",
               "set compute = \"bf16\", or leave out products");
  p.products = "compute";
}

}  // namespace plait::plan
