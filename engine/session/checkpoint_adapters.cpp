#include "engine/session/checkpoint_adapters.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/json_value.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/weights.hpp"
#include "engine/config/document.hpp"
#include "engine/topology/box.hpp"

namespace plait::session {

using checkpoint::BaseRecord;
using checkpoint::Checkpoint;
using checkpoint::NewContent;
using checkpoint::TensorRecord;

namespace {

constexpr char kModels[] = "models.";

// The name of the model with a path: "model", or NAME of "models.NAME".
std::string name_of_model(const std::string& path) {
  return starts_with(path, kModels) ? path.substr(sizeof kModels - 1) : path;
}

// A list of texts in TOML.
std::vector<std::string> texts_of(const RecordedAdapter& entry, const std::string& key) {
  const auto at = entry.options.find(key);
  if (at == entry.options.end()) return {};
  config::Problems problems;
  const config::Document parsed = config::Document::parse("x = " + at->second, key, problems);
  std::vector<std::string> texts;
  if (problems.empty())
    for (const config::Node& one : parsed.root.find("x").items()) texts.push_back(one.as_text());
  return texts;
}

bool matches_one(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return glob_match(pattern, name); });
}

// Whether the entry changes a layer or a parameter of this name.
bool changes(const RecordedAdapter& entry, const std::string& target) {
  return matches_one(texts_of(entry, "match"), target) &&
         !matches_one(texts_of(entry, "exclude"), target);
}

// Whether it is TARGET.NAME.OWN, or TARGET.NAME.OWN.STATE of an optimizer. Layers may have the
// adapter's name: what stands before it must be what the adapter changes.
bool belongs(const TensorRecord& t, const StoredAdapter& adapter) {
  const std::string name = "." + adapter.name + ".";
  const size_t at = t.name.rfind(name);
  if (!starts_with(t.name, adapter.model + ".") || at == std::string::npos ||
      at <= adapter.model.size())
    return false;
  const auto own = t.name.begin() + static_cast<std::ptrdiff_t>(at + name.size());
  if (std::count(own, t.name.end(), '.') != (checkpoint::is_parameter(t) ? 0 : 1)) return false;
  const std::string target = t.name.substr(0, at);
  return std::any_of(adapter.entries.begin(), adapter.entries.end(),
                     [&](const RecordedAdapter& entry) { return changes(entry, target); });
}

void find_tensors(StoredAdapter& all, const checkpoint::Manifest& manifest) {
  for (const TensorRecord& t : manifest.tensors) {
    if (!belongs(t, all)) continue;
    if (!checkpoint::is_parameter(t)) {
      all.states.push_back(&t);
      continue;
    }
    all.parameters.push_back(&t);
    all.elements += topology::elements(t.shape);
    all.bytes += tensor_bytes(t);
    const std::string target = target_of(t.name, all.name);
    if (std::find(all.targets.begin(), all.targets.end(), target) == all.targets.end())
      all.targets.push_back(target);
  }
}

const BaseRecord* base_of(const Checkpoint& c, const std::string& model) {
  for (const BaseRecord& base : c.state().bases)
    if (base.model == model) return &base;
  return nullptr;
}

[[noreturn]] void fail_other_base(const Checkpoint& from, const Checkpoint& other,
                                  const std::string& why) {
  fail_config("[checkpoint] '" + other.path() + "' has another base than '" + from.path() +
              "': " + why + "; an adapter computes what it has learned beside its own base only");
}

void check_same_base(const Checkpoint& from, const Checkpoint& other, const std::string& model,
                     const std::vector<StoredAdapter>& adapters) {
  const BaseRecord *a = base_of(from, model), *b = base_of(other, model);
  if (a && b && a->hash != b->hash)
    fail_other_base(from, other,
                    "the weights '" + printable(b->path) + "' with the hash " + b->hash.hex() +
                        ", not '" + printable(a->path) + "' with " + a->hash.hex());
  for (const TensorRecord& t : other.tensors()) {
    const bool of_adapter = std::any_of(
        adapters.begin(), adapters.end(),
        [&](const StoredAdapter& one) { return one.model == model && belongs(t, one); });
    const TensorRecord* own = from.find(t.name);
    if (of_adapter || !own || !checkpoint::is_parameter(t) || !starts_with(t.name, model + "."))
      continue;
    if (own->shape != t.shape)
      fail_other_base(from, other,
                      "'" + printable(t.name) + "' is " + checkpoint::shape_text(t.shape) +
                          ", not " + checkpoint::shape_text(own->shape));
    const bool whole = own->slices.size() == 1 && t.slices.size() == 1;
    if (whole && own->dtype == t.dtype && own->slices[0].hash != t.slices[0].hash)
      fail_other_base(from, other, "'" + printable(t.name) + "' has other values");
  }
}

// All that `stored` changes must be in the model that it is added to.
void check_targets(const CheckpointOf& from, const config::ModelConfig& model,
                   const StoredAdapter& stored) {
  const BaseRecord* base = base_of(from.checkpoint, model.name);
  for (const std::string& target : stored.targets) {
    const bool layer =
        std::any_of(model.layers.begin(), model.layers.end(), [&](const config::LayerConfig& one) {
          const std::string full = model.name + "." + one.name;
          return target == full || starts_with(target, full + ".");
        });
    if (layer || from.checkpoint.find(target) ||
        (base && std::binary_search(base->parameters.begin(), base->parameters.end(), target)))
      continue;
    fail_config("[checkpoint] adapter '" + stored.name + "' changes '" + printable(target) +
                "', which the model of '" + from.checkpoint.path() +
                "' does not have; take an adapter of this model");
  }
}

config::ModelConfig& model_of(CheckpointOf& from, const std::string& name) {
  std::vector<std::string> names;
  for (config::ModelConfig& model : from.experiment.models) {
    if (name.empty() ? from.experiment.models.size() == 1 : model.name == name) return model;
    names.push_back(model.name);
  }
  fail_not_found("[checkpoint] '" + from.checkpoint.path() +
                 (name.empty() ? "' has several models" : "' has no model '" + name + "'") +
                 "; name one of: " + join(names));
}

std::vector<std::string> names_of(const std::vector<StoredAdapter>& all, const std::string& model) {
  std::vector<std::string> names;
  for (const StoredAdapter& one : all)
    if (one.model == model) names.push_back(one.name);
  return names;
}

[[noreturn]] void fail_no_adapter(const Checkpoint& c, const std::string& name,
                                  const std::vector<std::string>& names) {
  fail_not_found("[checkpoint] '" + c.path() + "' has no adapter '" + name + "'" +
                 did_you_mean(nearest(name, names)) + "; there " +
                 (names.empty() ? "is none" : "are: " + join(names)));
}

const StoredAdapter& find(const std::vector<StoredAdapter>& all, const std::string& model,
                          const std::string& name) {
  return *std::find_if(all.begin(), all.end(), [&](const StoredAdapter& one) {
    return one.model == model && one.name == name;
  });
}

// The updates that the optimizer's states of the adapter have seen.
int64_t updates_of(const checkpoint::RunState& state, const StoredAdapter& adapter) {
  const JsonValue extra = parse_json(state.extra);
  const JsonValue* count = extra.find(updates_key(adapter.model, adapter.name));
  if (!count) count = extra.find("updates");
  return count ? static_cast<int64_t>(count->whole) : state.step;
}

// count < 0: none.
void set_updates(checkpoint::RunState& state, const std::string& model, const std::string& adapter,
                 int64_t count) {
  JsonValue extra = parse_json(state.extra);
  const std::string key = updates_key(model, adapter);
  for (size_t i = extra.keys.size(); i-- > 0;)
    if (extra.keys[i] == key) {
      extra.keys.erase(extra.keys.begin() + static_cast<std::ptrdiff_t>(i));
      extra.items.erase(extra.items.begin() + static_cast<std::ptrdiff_t>(i));
    }
  if (count >= 0) {
    JsonValue number;
    number.kind = JsonValue::Kind::kWhole;
    number.whole = static_cast<uint64_t>(count);
    extra.keys.push_back(key);
    extra.items.push_back(std::move(number));
  }
  state.extra = json_text(extra);
}

NewContent same_content(const Checkpoint& from) {
  NewContent content;
  content.state = from.state();
  for (const TensorRecord& t : from.tensors()) content.tensors.push_back({&from, &t, t.name});
  return content;
}

// Whether states of both are there. Else the content keeps none: adapters are always trained, so no
// run continues without all.
bool keep_states(NewContent& content, const Checkpoint& other) {
  const auto is_state = [](const checkpoint::RewrittenTensor& t) {
    return !checkpoint::is_parameter(*t.stored);
  };
  const bool had = std::any_of(content.tensors.begin(), content.tensors.end(), is_state);
  if (!had || !other.state().states_left_out) return had;
  std::erase_if(content.tensors, is_state);
  content.state.states_left_out = true;
  return false;
}

void drop_empty_groups(config::ModelConfig& model, const NewContent& content) {
  std::vector<std::string> names;
  for (const checkpoint::RewrittenTensor& t : content.tensors)
    if (checkpoint::is_parameter(*t.stored) && starts_with(t.name, model.name + "."))
      names.push_back(t.name);
  for (const BaseRecord& base : content.state.bases)
    if (base.model == model.name)
      names.insert(names.end(), base.parameters.begin(), base.parameters.end());
  session::drop_empty_groups(model, names);
}

}  // namespace

std::vector<StoredAdapter> stored_adapters(const checkpoint::Manifest& manifest) {
  std::vector<StoredAdapter> all;
  for (RecordedAdapter& entry : adapters_in(manifest.state.settings)) {
    const std::string model = name_of_model(entry.model);
    const auto known = std::find_if(all.begin(), all.end(), [&](const StoredAdapter& one) {
      return one.model == model && one.name == entry.name;
    });
    StoredAdapter& of =
        known != all.end()
            ? *known
            : all.emplace_back(StoredAdapter{model, entry.name, 0, 0, {}, {}, {}, {}});
    of.entries.push_back(std::move(entry));
  }
  for (StoredAdapter& one : all) find_tensors(one, manifest);
  return all;
}

NewContent with_adapter(CheckpointOf& from, const std::string& model_name, const std::string& name,
                        const CheckpointOf& other) {
  config::ModelConfig& model = model_of(from, model_name);
  const auto own = stored_adapters(from.checkpoint.manifest()),
             theirs = stored_adapters(other.checkpoint.manifest());
  if (const auto names = names_of(own, model.name);
      std::find(names.begin(), names.end(), name) != names.end())
    fail_invalid("[checkpoint] '" + from.checkpoint.path() + "' has an adapter '" + name +
                 "' already; choose another name, or leave that one out first");
  const auto names = names_of(theirs, model.name);
  const bool same_name = std::find(names.begin(), names.end(), name) != names.end();
  if (!same_name && names.size() != 1) fail_no_adapter(other.checkpoint, name, names);
  const StoredAdapter& added = find(theirs, model.name, same_name ? name : names[0]);
  check_same_base(from.checkpoint, other.checkpoint, model.name, theirs);
  check_targets(from, model, added);

  NewContent content = same_content(from.checkpoint);
  const auto add = [&](const TensorRecord* t) {
    content.tensors.push_back({&other.checkpoint, t, as_named(t->name, added.name, name)});
  };
  std::for_each(added.parameters.begin(), added.parameters.end(), add);
  const bool has_states = keep_states(content, other.checkpoint);
  if (has_states) std::for_each(added.states.begin(), added.states.end(), add);
  set_updates(content.state, model.name, name,
              has_states ? updates_of(other.checkpoint.state(), added) : -1);
  std::vector<RecordedAdapter> entries = added.entries;
  for (RecordedAdapter& entry : entries) entry.name = name;
  add_adapters(content.state.settings, model.path, entries);
  for (const config::ModelConfig& their_model : other.experiment.models) {
    if (their_model.name != model.name) continue;
    for (config::AdapterConfig entry : their_model.adapters) {
      if (entry.name != added.name) continue;
      entry.name = name;
      entry.keys.set_text("name", name, entry.keys.origin("name"));
      entry.keys.set_text("load", "", entry.keys.origin("load"));
      model.adapters.push_back(std::move(entry));
    }
  }
  return content;
}

NewContent without_adapter(CheckpointOf& from, const std::string& model_name,
                           const std::string& name) {
  config::ModelConfig& model = model_of(from, model_name);
  const auto own = stored_adapters(from.checkpoint.manifest());
  const auto names = names_of(own, model.name);
  if (std::find(names.begin(), names.end(), name) == names.end())
    fail_no_adapter(from.checkpoint, name, names);
  const StoredAdapter& removed = find(own, model.name, name);
  NewContent content = same_content(from.checkpoint);
  std::erase_if(content.tensors,
                [&](const checkpoint::RewrittenTensor& t) { return belongs(*t.stored, removed); });
  set_updates(content.state, model.name, name, -1);
  keep_adapters(content.state.settings, model.path,
                [&](const std::string& one) { return one != name; });
  std::erase_if(model.adapters, [&](const auto& entry) { return entry.name == name; });
  if (!model.adapter_field.empty()) leave_metrics(from.experiment, {name});
  drop_empty_groups(model, content);
  if (model.adapters.empty()) {
    leave_adapter_field(model);
    leave_adapter_field(content.state.settings, model.path);
  }
  leave_fixed_adapter(from.experiment);
  return content;
}

}  // namespace plait::session
