// Models of other libraries, and weights for them.
#include <plait/format.h>
#include <plait/tokenizer.h>

#include <algorithm>

#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/capi/objects.hpp"
#include "engine/checkpoint/export_weights.hpp"
#include "engine/format/format.hpp"
#include "engine/observe/run_dir.hpp"
#include "engine/tokenizer/tokenizer.hpp"

using namespace plait;
using namespace plait::capi;

namespace {

struct Export {
  std::vector<checkpoint::ExportTensor> tensors;
  std::vector<checkpoint::ExportFile> beside;
  std::string weights_name;  // "": the usual one
};

const config::ModelConfig& model_of(const plait_experiment& experiment) {
  const std::vector<config::ModelConfig>& models = experiment.experiment.models;
  if (models.size() != 1)
    fail(PLAIT_ERR_UNIMPLEMENTED,
         strf("[export] the experiment has %zu models; a format writes one", models.size()));
  return models[0];
}

// A checkpoint of what was trained lacks the rest of the model.
void check_complete(const checkpoint::Checkpoint& from, const checkpoint::TensorMap& map,
                    const std::string& model) {
  for (const checkpoint::BaseRecord& base : from.state().bases)
    for (const std::string& name : base.parameters)
      if (starts_with(name, model + ".") && map.parameters.contains(name.substr(model.size() + 1)))
        fail_config("[export] '" + from.path() + "' holds what was trained, and not '" +
                    printable(name) + "', which is in '" + printable(base.path) +
                    "'; export a checkpoint of a run with checkpoint.save = \"all\"");
}

// A rule that gives no tensor a name is a mistake of who wrote it.
void check_used(const checkpoint::Checkpoint& from, const std::string& rule) {
  const NameRules one({rule});
  std::vector<std::string> names;
  for (const checkpoint::TensorRecord& t : from.tensors())
    if (checkpoint::is_parameter(t)) names.push_back(t.name);
  if (std::any_of(names.begin(), names.end(),
                  [&](const std::string& name) { return one.find({name}).has_value(); }))
    return;
  const std::string ours = rule.substr(0, rule.find('='));
  fail_invalid("[export] the rule '" + printable(rule) + "' matches no parameter of '" +
               from.path() + "'" + did_you_mean(nearest(ours, names)) +
               "; names are whole, such as '" + (names.empty() ? "" : names[0]) + "'");
}

Export export_of(const std::shared_ptr<EngineState>& state, const plait_export_options& o,
                 const checkpoint::Checkpoint& from, const std::string& out) {
  std::vector<std::string> rules;
  for (uint32_t i = 0; i < o.n_names; ++i) {
    require(o.names, "names");
    require(o.names[i], "names[i]");
    rules.emplace_back(o.names[i]);
  }
  checkpoint::WrittenTypes types{o.dtype};
  if (!o.format) {
    for (const std::string& rule : rules) check_used(from, rule);
    return {checkpoint::export_by_rules(from, NameRules(rules), types), {}, ""};
  }
  if (!rules.empty())
    fail_invalid("[export] there are names beside a format, which names the tensors itself");
  if (ends_with(out, ".safetensors"))
    fail_invalid("[export] '" + out + "' is a file, and a format writes a folder");
  require(o.experiment, "experiment");
  const config::ModelConfig& model = model_of(*o.experiment);
  const config::ItemConfig item = read_item(
      *state, PLAIT_KIND_FORMAT, text_argument(o.format, o.format_size, "format"), "format");
  if (o.dtype == 0) types = format::types_of_source(state->files, model, from, state->log);
  format::Description made =
      format::Format(item, shared_registry(state))
          .write(format::model_json(model, o.experiment->experiment.tokenizer, from, types));
  check_complete(from, made.map, model.name);
  return {checkpoint::export_by_map(from, made.map, model.name, types), std::move(made.files),
          made.map.weights};
}

// The [tokenizer] of an imported experiment, as a document of its own, its files where they are
// now; empty if the experiment has none.
config::Document tokenizer_of(FileSystem& files, const format::Description& made,
                              const std::string& folder) {
  const auto file = [&](const std::string& name) {
    return std::find_if(made.files.begin(), made.files.end(),
                        [&](const checkpoint::ExportFile& f) { return f.name == name; });
  };
  config::Problems problems;
  config::Document document = config::Document::parse(
      file(format::kExperimentName)->content, join_path(folder, format::kExperimentName), problems);
  problems.raise_if_any();
  config::Node table = document.root.find("tokenizer");
  for (const std::string& key : table.keys()) {
    const config::Node& value = table.find(key);
    const auto copied =
        value.is(config::NodeKind::kText) ? file(value.as_text()) : made.files.end();
    if (copied != made.files.end() && !copied->copy_of.empty())
      table.set(
          key, config::Node::text(join_path(files.real_path("."), copied->copy_of), value.origin()),
          value.origin());
  }
  document.root = std::move(table);
  return document;
}

// Opens it, so that a damaged file is found at the import, not when text is generated. One of a
// kind that no plugin knows is a warning: the model can be trained on ids that were made elsewhere.
void try_tokenizer(const std::shared_ptr<EngineState>& state, const format::Description& made,
                   const std::string& folder) {
  const config::Document document = tokenizer_of(state->files, made, folder);
  if (!document.root) return;
  try {
    config::Problems problems;
    const config::ItemConfig item =
        config::load_one_item(PLAIT_KIND_TOKENIZER, document, *state->registry,
                              {&state->files, state->data_folder, folder}, problems);
    problems.raise_if_any();
    const tokenizer::Tokenizer opened(item, shared_registry(state));
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_UNIMPLEMENTED && e.code() != PLAIT_ERR_CONFIG)
      rethrow_with("[import] the tokenizer of '" + folder +
                   "' cannot be opened; mend its file, or move it away to import the model alone");
    const std::string& why = e.cause() ? e.cause()->text() : e.text();
    state->log.warn("[import] the tokenizer of '" + folder + "' is not known (" +
                    without_part(why) +
                    "); the model learns from token ids alone, and generates no text");
  }
}

}  // namespace

extern "C" {

plait_error* plait_checkpoint_export(plait_engine* engine, const char* checkpoint, const char* out,
                                     const plait_export_options* options, plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(checkpoint, "checkpoint");
    require(out, "out");
    require(json, "json");
    const ApiCall call(*engine, "plait_checkpoint_export", "engine");
    const auto o = read_options(options, kExportOptionsV1, "plait_export_options");
    EngineState& state = *engine->state;
    const auto lock = observe::lock_run_around(state.files, out);
    const auto from = checkpoint::open_checkpoint(state.files, checkpoint, state.log);
    Export made = export_of(engine->state, o, *from, out);
    const checkpoint::Exported done =
        checkpoint::export_weights(state.files, *from, out, std::move(made.tensors),
                                   o.max_shard_bytes, made.beside, made.weights_name);
    JsonWriter w;
    w.object().field("schema", 1).field("checkpoint", from->path());
    w.field("step", from->state().step).texts("files", done.files);
    w.field("tensors", done.tensors).field("bytes", done.bytes);
    w.texts("dtypes", done.dtypes).end_object();
    *json = new_text(w.text());
  });
}

plait_error* plait_model_import(plait_engine* engine, const char* toml, uint64_t size,
                                const char* folder, const char* out, plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(folder, "folder");
    require(out, "out");
    require(json, "json");
    const ApiCall call(*engine, "plait_model_import", "engine");
    EngineState& state = *engine->state;
    const config::ItemConfig item =
        read_item(state, PLAIT_KIND_FORMAT, text_argument(toml, size, "toml"), "format");
    const format::Imported done = format::import_model(
        state.files, format::Format(item, shared_registry(engine->state)), folder, out,
        [&](const format::Description& made) { try_tokenizer(engine->state, made, folder); });
    JsonWriter w;
    w.object().field("schema", 1).texts("files", done.files);
    w.field("parameters", done.parameters).field("bytes", done.bytes).end_object();
    *json = new_text(w.text());
  });
}

}  // extern "C"
