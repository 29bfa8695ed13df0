// Adapters of checkpoints (adapters.h).
#include <plait/adapters.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/capi/checkpoint_json.hpp"
#include "engine/capi/objects.hpp"
#include "engine/checkpoint/weights.hpp"
#include "engine/config/bind.hpp"
#include "engine/config/document.hpp"
#include "engine/config/names.hpp"
#include "engine/observe/run_dir.hpp"
#include "engine/session/checkpoint_adapters.hpp"

using namespace plait;
using namespace plait::capi;
using namespace plait::checkpoint;

namespace {

void write_adapter(JsonWriter& w, const session::StoredAdapter& adapter) {
  w.object().field("model", adapter.model).field("name", adapter.name);
  w.field("parameters", adapter.elements).field("bytes", adapter.bytes);
  w.key("entries").array();
  for (const session::RecordedAdapter& entry : adapter.entries) {
    w.object().field("type", entry.type).key("options").object();
    for (const auto& [key, value] : entry.options) w.field(key, value);
    w.end_object().end_object();
  }
  w.end_array().texts("targets", adapter.targets).end_object();
}

void write_checkpoint(JsonWriter& w, const std::string& path, const Manifest& manifest) {
  w.object().field("path", path).field("step", manifest.state.step).key("bases").array();
  for (const BaseRecord& base : manifest.state.bases)
    w.object()
        .field("model", base.model)
        .field("path", base.path)
        .field("hash", base.hash.hex())
        .end_object();
  w.end_array().key("adapters").array();
  for (const session::StoredAdapter& adapter : session::stored_adapters(manifest))
    write_adapter(w, adapter);
  w.end_array().end_object();
}

std::string adapters_json(FileSystem& files, const char* place) {
  JsonWriter w;
  w.object().field("schema", 1).key("checkpoints").array();
  std::vector<std::pair<std::string, std::string>> left_out;  // paths, faults
  for (const Surveyed& one : survey(files, place).checkpoints) {
    if (one.condition == Condition::kNotCommitted) continue;
    std::string fault = one.fault;
    std::optional<Manifest> manifest;
    try {
      if (fault.empty()) manifest = read_manifest(files, one.path);
    } catch (const Error& e) {  // since it was listed
      if (e.code() == PLAIT_ERR_MEMORY) throw;
      fault = without_part(e.text());
    }
    if (manifest)
      write_checkpoint(w, one.path, *manifest);
    else
      left_out.emplace_back(one.path, fault);
  }
  w.end_array().key("left_out").array();
  for (const auto& [path, fault] : left_out)
    w.object().field("path", path).field("fault", fault).end_object();
  return w.end_array().end_object().text();
}

session::CheckpointOf with_experiment(EngineState& engine, const Checkpoint& c) {
  const std::string path = join_path(c.path(), kExperimentName);
  if (!engine.files.is_file(path))
    fail_config("[checkpoint] '" + c.path() + "' has no " + kExperimentName +
                ", the experiment that tells its adapters; take a checkpoint that a run has saved");
  return {c, read_experiment(engine, path)};
}

std::string name_argument(const char* name) {
  require(name, "name");
  const std::string text = name;
  if (!config::good_name(text))
    fail_invalid("[checkpoint] '" + printable(text) +
                 "' is no name of an adapter; use letters, digits, _ and -");
  return text;
}

// Checksums are compared when tensors are read.
Checkpoint open_later(FileSystem& files, const char* place) {
  return Checkpoint(files, choose_checkpoint(files, place), Checkpoint::Verify::kLater);
}

// What is written must be an experiment that can be read.
void check_readable(EngineState& engine, const std::string& text, const std::string& folder) {
  config::Problems problems;
  const auto document = config::Document::parse(text, join_path(folder, kExperimentName), problems);
  if (problems.empty())
    config::load_experiment(document, *engine.registry, {&engine.files, engine.data_folder, folder},
                            problems);
  problems.raise_if_any();
}

// With adapter_field a sample names its adapter by number.
void warn_of_numbers(Log& log, const config::Experiment& then, const config::Experiment& now) {
  for (size_t i = 0; i < now.models.size(); ++i) {
    const config::ModelConfig& model = now.models[i];
    if (model.adapter_field.empty()) continue;
    const auto before = config::adapter_names(then.models[i]), left = config::adapter_names(model);
    for (size_t was = 0; was < before.size(); ++was) {
      const auto now_at = std::find(left.begin(), left.end(), before[was]);
      const auto number = now_at - left.begin();
      if (now_at != left.end() && number != static_cast<std::ptrdiff_t>(was))
        log.warn("[checkpoint] adapter '" + before[was] + "' has the number " +
                 std::to_string(number) + " in '" + model.adapter_field + "' now, " +
                 std::to_string(was) + " before: make the data for the new numbers");
    }
  }
}

using MakeContent = std::function<NewContent(session::CheckpointOf&)>;
plait_text* write_again(EngineState& engine, const char* checkpoint, const char* out,
                        const MakeContent& make) {
  const auto lock = observe::lock_run_around(engine.files, out);
  const Checkpoint from = open_later(engine.files, checkpoint);
  session::CheckpointOf of = with_experiment(engine, from);
  const config::Experiment then = of.experiment;
  NewContent content = make(of);
  content.state.experiment = config::bind(of.experiment, *engine.registry, true);
  check_readable(engine, content.state.experiment, out);
  std::unique_ptr<plait_text> text;  // complete before the checkpoint appears
  rewrite_checkpoint(
      engine.files, from, out, {}, {},
      [&](const Rewritten& done) { text.reset(new_text(rewritten_json(from, done))); }, &content);
  warn_of_numbers(engine.log, then, of.experiment);
  if (content.state.states_left_out && !from.state().states_left_out)
    engine.log.warn(
        "[checkpoint] the new checkpoint has no optimizer states, because the checkpoint of the "
        "added adapter has none: a run cannot continue from it; train on from its weights with "
        "model.load");
  return text.release();
}

}  // namespace

extern "C" {

plait_error* plait_checkpoint_adapters(plait_engine* engine, const char* place, plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(place, "place");
    require(json, "json");
    const ApiCall call(*engine, "plait_checkpoint_adapters", "engine");
    *json = new_text(adapters_json(engine->state->files, place));
  });
}

plait_error* plait_checkpoint_add_adapter(plait_engine* engine, const char* checkpoint,
                                          const char* model, const char* name, const char* other,
                                          const char* out, plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(checkpoint, "checkpoint");
    require(other, "other");
    require(out, "out");
    require(json, "json");
    const ApiCall call(*engine, "plait_checkpoint_add_adapter", "engine");
    const std::string adapter = name_argument(name);
    EngineState& state = *engine->state;
    const Checkpoint added = open_later(state.files, other);
    *json = write_again(state, checkpoint, out, [&](session::CheckpointOf& from) {
      return session::with_adapter(from, model ? model : "", adapter,
                                   with_experiment(state, added));
    });
  });
}

plait_error* plait_checkpoint_remove_adapter(plait_engine* engine, const char* checkpoint,
                                             const char* model, const char* name, const char* out,
                                             plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(checkpoint, "checkpoint");
    require(out, "out");
    require(json, "json");
    const ApiCall call(*engine, "plait_checkpoint_remove_adapter", "engine");
    const std::string adapter = name_argument(name);
    *json = write_again(*engine->state, checkpoint, out, [&](session::CheckpointOf& from) {
      return session::without_adapter(from, model ? model : "", adapter);
    });
  });
}

}  // extern "C"
