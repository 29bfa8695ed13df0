// Models of other libraries, and weights for them.
#include <plait/format.h>

#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/capi/objects.hpp"
#include "engine/checkpoint/export_weights.hpp"
#include "engine/format/format.hpp"

using namespace plait;
using namespace plait::capi;

namespace {

struct Export {
  std::vector<checkpoint::ExportTensor> tensors;
  std::vector<checkpoint::ExportFile> beside;
};

const config::ModelConfig& model_of(const plait_experiment& experiment) {
  const std::vector<config::ModelConfig>& models = experiment.experiment.models;
  if (models.size() != 1)
    fail(PLAIT_ERR_UNIMPLEMENTED,
         strf("[export] the experiment has %zu models; a format writes one", models.size()));
  return models[0];
}

Export export_of(const std::shared_ptr<EngineState>& state, const plait_export_options& o,
                 const checkpoint::Checkpoint& from, const std::string& out) {
  std::vector<std::string> rules;
  for (uint32_t i = 0; i < o.n_names; ++i) {
    require(o.names, "names");
    require(o.names[i], "names[i]");
    rules.emplace_back(o.names[i]);
  }
  if (!o.format) return {checkpoint::export_by_rules(from, NameRules(rules), o.dtype), {}};
  if (!rules.empty())
    fail_invalid("[export] there are names beside a format, which names the tensors itself");
  if (ends_with(out, ".safetensors"))
    fail_invalid("[export] '" + out + "' is a file, and a format writes a folder");
  require(o.experiment, "experiment");
  const config::ModelConfig& model = model_of(*o.experiment);
  const config::ItemConfig item = read_item(
      *state, PLAIT_KIND_FORMAT, text_argument(o.format, o.format_size, "format"), "format");
  format::Description made =
      format::Format(item, shared_registry(state)).write(format::model_json(model, from, o.dtype));
  return {checkpoint::export_by_map(from, made.map, model.name, o.dtype), std::move(made.files)};
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
    const auto from = checkpoint::open_checkpoint(state.files, checkpoint, state.log);
    Export made = export_of(engine->state, o, *from, out);
    const checkpoint::Exported done = checkpoint::export_weights(
        state.files, *from, out, std::move(made.tensors), o.max_shard_bytes, made.beside);
    JsonWriter w;
    w.object().field("schema", 1).field("checkpoint", from->path());
    w.field("step", from->state().step).texts("files", done.files);
    w.field("tensors", done.tensors).field("bytes", done.bytes).end_object();
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
        state.files, format::Format(item, shared_registry(engine->state)), folder, out);
    JsonWriter w;
    w.object().field("schema", 1).texts("files", done.files);
    w.field("parameters", done.parameters).field("bytes", done.bytes).end_object();
    *json = new_text(w.text());
  });
}

}  // extern "C"
