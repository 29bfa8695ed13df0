// adapters.h.
#include <plait/adapters.h>

#include <algorithm>
#include <cstddef>
#include <functional>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/capi/objects.hpp"
#include "engine/config/bind.hpp"
#include "engine/format/format.hpp"
#include "engine/session/adapter_files.hpp"
#include "engine/session/adapters_json.hpp"

using namespace plait;
using namespace plait::capi;

namespace {

constexpr size_t kSourceV1 = offsetof(plait_adapter_source, format) + sizeof(char*);

// Fields stood for data while the plan was made; the experiment that is saved has the data, whose
// epochs need no number of steps.
void leave_field_texts(config::Experiment& e) {
  if (e.run.epochs > 0)
    for (auto& [path, keys] : e.sections)
      if (path == "run") keys.set_int("steps", 0, keys.origin("steps"));
  for (config::DatasetConfig& dataset : e.datasets)
    dataset.keys.set_texts("fields", {}, dataset.keys.origin("fields"));
}

// The experiment with the adapters that `keep` names, whose checkpoint lacks the others.
config::Experiment with_adapters(
    const plan::Plan& plan,
    const std::function<bool(const config::ModelConfig&, const std::string& adapter)>& keep) {
  config::Experiment e = plan.experiment;
  for (config::ModelConfig& model : e.models) {
    std::erase_if(model.adapters, [&](const auto& adapter) { return !keep(model, adapter.name); });
    std::vector<std::string> names;
    for (const plan::Parameter& p : plan.parameters)
      if (p.model == model.name && (p.adapter.empty() || keep(model, p.adapter)))
        names.push_back(p.name);
    session::drop_empty_groups(model, names);
  }
  leave_field_texts(e);
  return e;
}

// Every sample takes the adapters that are left, which then have no metrics of their own.
void leave_fields(config::Experiment& e, const plan::Plan& plan) {
  for (const config::ModelConfig& model : plan.experiment.models)
    if (!model.adapter_field.empty()) session::leave_metrics(e, config::adapter_names(model));
  for (config::ModelConfig& model : e.models) session::leave_adapter_field(model);
  session::leave_fixed_adapter(e);
}

void set_save(config::Experiment& e, const char* value) {
  for (auto& [path, keys] : e.sections)
    if (path == "checkpoint") keys.set_text("save", value, keys.origin("save"));
}

// The experiment of the models alone, whose checkpoint is complete: it needs no base.
config::Experiment without_adapters(const plan::Plan& plan) {
  config::Experiment e = with_adapters(plan, [](const auto&, const auto&) { return false; });
  set_save(e, "all");
  leave_fields(e, plan);
  for (config::ModelConfig& model : e.models) {
    model.keys.set_text("load", "", model.keys.origin("load"));
    for (const char* key : {"load_names", "load_missing", "load_unexpected"})
      model.keys.set_texts(key, {}, model.keys.origin(key));
  }
  return e;
}

// The experiment of one adapter, which its checkpoint holds alone.
config::Experiment with_one_adapter(const plan::Plan& plan, const config::ModelConfig& of,
                                    const std::string& adapter) {
  config::Experiment e = with_adapters(plan, [&](const auto& model, const std::string& name) {
    return model.name == of.name && name == adapter;
  });
  leave_fields(e, plan);
  for (config::ModelConfig& model : e.models) {
    if (!model.load.empty()) set_save(e, "trained");
    for (config::AdapterConfig& one : model.adapters)
      one.keys.set_text("load", "", one.keys.origin("load"));
  }
  return e;
}

// The model that a call means. NULL: the only one that has adapters.
const config::ModelConfig& model_of(const plan::Plan& plan, const char* name) {
  std::vector<std::string> names;
  const config::ModelConfig* found = nullptr;
  for (const config::ModelConfig& model : plan.experiment.models) {
    if (name ? model.name == name : !model.adapters.empty()) found = &model;
    if (name || !model.adapters.empty()) names.push_back(model.name);
  }
  if (found && (name || names.size() == 1)) return *found;
  if (names.empty())
    fail_not_found("[session] the experiment has no adapters; add [[model.adapters]]");
  fail_not_found((name ? "[session] there is no model '" + std::string(name) + "'"
                       : "[session] several models have adapters") +
                 "; name one of: " + join(names));
}

std::string adapter_of(const config::ModelConfig& model, const char* given) {
  require(given, "name");
  const std::vector<std::string> names = config::adapter_names(model);
  const std::string name = given;
  if (std::find(names.begin(), names.end(), name) != names.end()) return name;
  fail_not_found("[session] " + model.path + " has no adapter '" + printable(name) + "'" +
                 did_you_mean(nearest(name, names)) + "; there " +
                 (names.empty() ? "is none" : "are: " + join(names)));
}

// Of flags of a merge.
bool keeps_copy(const char* call, uint32_t flags) {
  if (flags & ~PLAIT_MERGE_FINAL)
    fail_invalid(strf("[capi] %s: flags is %u, expected 0 or PLAIT_MERGE_FINAL (1)", call, flags));
  return (flags & PLAIT_MERGE_FINAL) == 0;
}

// The entries of the experiment.toml that a format writes.
std::vector<session::RecordedAdapter> entries_of(const format::Description& made) {
  std::vector<session::RecordedAdapter> entries;
  for (const checkpoint::ExportFile& file : made.files) {
    if (file.name != format::kExperimentName) continue;
    config::Problems problems;
    const config::Document document = config::Document::parse(file.content, file.name, problems);
    problems.raise_if_any();
    for (const config::Node& table : document.root.find("model").find("adapters").items()) {
      session::RecordedAdapter entry;
      for (const std::string& key : table.keys())
        if (key == "type")
          entry.type = table.find(key).as_text();
        else if (key == "name")
          entry.name = table.find(key).as_text();
        else
          entry.options[key] = table.find(key).toml();
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

session::AdapterSource source_of(plait_session& session, const plait_adapter_source& given) {
  session::AdapterSource source;
  source.path = text_argument(given.path, PLAIT_NTS, "path");
  source.from = given.from ? given.from : "";
  if (!given.format) return source;
  FileSystem& files = session.engine->files;
  const config::ItemConfig item =
      read_item(*session.engine, PLAIT_KIND_FORMAT, given.format, "format");
  if (!files.is_folder(source.path))
    fail_not_found("[session] '" + source.path + "' is no folder; a format reads one");
  format::Description made =
      format::Format(item, shared_registry(session.engine)).read(source.path);
  const std::string at = files.real_path(source.path);
  made.map.weights = made.map.weights.empty() ? at : join_path(at, made.map.weights);
  source.recorded = entries_of(made);
  source.map = std::move(made.map);
  return source;
}

}  // namespace

extern "C" {

plait_error* plait_session_merge(plait_session* session, uint32_t flags) {
  return guard_c([&] {
    require(session, "session");
    const bool keep = keeps_copy("plait_session_merge", flags);
    const ApiCall call(*session, "plait_session_merge", "session");
    session->session->merge(keep);
  });
}

plait_error* plait_session_merge_adapter(plait_session* session, const char* model,
                                         const char* name, uint32_t flags) {
  return guard_c([&] {
    require(session, "session");
    const bool keep = keeps_copy("plait_session_merge_adapter", flags);
    const ApiCall call(*session, "plait_session_merge_adapter", "session");
    const config::ModelConfig& of = model_of(session->session->plan(), model);
    session->session->merge_adapter(of, adapter_of(of, name), keep);
  });
}

plait_error* plait_session_unmerge(plait_session* session) {
  return guard_c([&] {
    require(session, "session");
    const ApiCall call(*session, "plait_session_unmerge", "session");
    session->session->unmerge();
  });
}

plait_error* plait_session_save_model(plait_session* session, const char* path) {
  return guard_c([&] {
    require(session, "session");
    const ApiCall call(*session, "plait_session_save_model", "session");
    const plan::Plan& plan = session->session->plan();
    session->session->save_model(text_argument(path, PLAIT_NTS, "path"),
                                 config::bind(without_adapters(plan), *plan.registry, true));
  });
}

plait_error* plait_session_adapters(plait_session* session, plait_text** json) {
  return guard_c([&] {
    require(session, "session");
    require(json, "json");
    const ApiCall call(*session, "plait_session_adapters", "session");
    *json = new_text(session::adapters_json(session->session->plan()));
  });
}

plait_error* plait_session_load_adapter(plait_session* session, const char* model, const char* name,
                                        const plait_adapter_source* source) {
  return guard_c([&] {
    require(session, "session");
    require(source, "source");
    const ApiCall call(*session, "plait_session_load_adapter", "session");
    const auto given = read_options(source, kSourceV1, "plait_adapter_source");
    const config::ModelConfig& of = model_of(session->session->plan(), model);
    text_argument(given.path, PLAIT_NTS, "path");
    session->session->load_adapter(of, adapter_of(of, name),
                                   [&] { return source_of(*session, given); });
  });
}

plait_error* plait_session_reset_adapter(plait_session* session, const char* model,
                                         const char* name) {
  return guard_c([&] {
    require(session, "session");
    const ApiCall call(*session, "plait_session_reset_adapter", "session");
    const config::ModelConfig& of = model_of(session->session->plan(), model);
    session->session->reset_adapter(of, adapter_of(of, name));
  });
}

plait_error* plait_session_save_adapter(plait_session* session, const char* model, const char* name,
                                        const char* path) {
  return guard_c([&] {
    require(session, "session");
    const ApiCall call(*session, "plait_session_save_adapter", "session");
    const plan::Plan& plan = session->session->plan();
    const config::ModelConfig& of = model_of(plan, model);
    const std::string adapter = adapter_of(of, name);
    session->session->save_adapter(
        text_argument(path, PLAIT_NTS, "path"), of, adapter,
        config::bind(with_one_adapter(plan, of, adapter), *plan.registry, true));
  });
}

}  // extern "C"
