// Engines and plugin files.
#include <cstdlib>
#include <filesystem>

#include "engine/capi/objects.hpp"
#include "engine/config/declarations.hpp"
#include "engine/plan/dataset_extension.hpp"
#include "engine/plan/devices.hpp"
#include "engine/plugin/inspect.hpp"
#include "engine/program/op_reference.hpp"
#include "engine/program/op_registry.hpp"
#include "engine/runtime/job.hpp"
#include "engine/tokenizer/extension.hpp"

using namespace plait;
using namespace plait::capi;

namespace {

std::string current_folder() {
  std::error_code ignored;
  return std::filesystem::current_path(ignored).string();
}

std::shared_ptr<EngineState> open_engine(const plait_engine_options& o) {
  auto state = std::make_shared<EngineState>();
  if (o.log) {
    state->log.set_sink([sink = o.log, user = o.log_user](uint32_t level, std::string_view text) {
      sink(user, level, text.data(), text.size());
    });
    state->log.set_level(o.log_level);
  }
  CallWatch::Late late;
  if (o.on_late)
    late = [call = o.on_late, user = o.on_late_user](const std::string& text) {
      call(user, text.data(), text.size());
    };
  state->watch = std::make_unique<CallWatch>(state->log, std::move(late));
  if (o.data_folder)
    state->data_folder = o.data_folder;
  else if (const char* folder = secure_getenv("PLAIT_DATA"))
    state->data_folder = folder;
  plugin::RegistrySettings settings;
  settings.unload = o.keep_plugins_loaded == 0;
  const plugin::Extensions extensions{{PLAIT_EXTENSION_TOKENIZERS, tokenizer::tokenizers_table()},
                                      {PLAIT_EXTENSION_DATASETS, plan::datasets_table()}};
  state->registry =
      std::make_unique<plugin::Registry>(state->log, state->files, extensions, settings);
  try {
    state->registry->set_job(runtime::place_of(runtime::job_from_environment(secure_getenv)));
  } catch (const Error& e) {
    // Whoever asks for the job of the environment is told so; an engine may do without one.
    state->log.debug(e.full_text());
  }
  std::vector<std::string> given;
  for (uint32_t i = 0; i < o.n_plugin_paths; ++i) {
    require(o.plugin_paths, "plugin_paths");
    require(o.plugin_paths[i], "plugin_paths[i]");
    given.emplace_back(o.plugin_paths[i]);
  }
  auto places = plugin::named_search_paths(given, "given", current_folder());
  if (o.no_default_plugins == 0)
    for (auto& p : plugin::default_search_paths()) places.push_back(std::move(p));
  state->registry->load_all(places);
  return state;
}

}  // namespace

extern "C" {

plait_error* plait_engine_open(const plait_engine_options* options, plait_engine** out) {
  return guard_c([&] {
    require(out, "out");
    *out = new plait_engine{
        {}, open_engine(read_options(options, kEngineOptionsV1, "plait_engine_options"))};
  });
}

void plait_engine_close(plait_engine* engine) {
  if (engine && engine->guard.close()) delete engine;
}

plait_error* plait_engine_load(plait_engine* engine, const char* path, uint64_t size) {
  return guard_c([&] {
    require(engine, "engine");
    const ApiCall call(*engine, "plait_engine_load", "engine");
    std::error_code ignored;
    engine->state->registry->load(
        std::filesystem::absolute(text_argument(path, size, "path"), ignored).string());
  });
}

plait_error* plait_engine_describe(plait_engine* engine, plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(json, "json");
    const ApiCall call(*engine, "plait_engine_describe", "engine");
    JsonWriter w;
    w.object().field("schema", 1).field("version", PLAIT_VERSION).field("abi", PLAIT_ABI_VERSION);
    w.field("data_folder", engine->state->data_folder);
    config::write_tables(w.key("tables"));
    w.key("registry").raw(engine->state->registry->describe_json()).end_object();
    *json = new_text(w.text());
  });
}

plait_error* plait_engine_ops(plait_engine* engine, plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(json, "json");
    const ApiCall call(*engine, "plait_engine_ops", "engine");
    const program::OpRegistry ops(*engine->state->registry);
    *json = new_text(program::op_json(ops.all()));
  });
}

plait_error* plait_engine_devices(plait_engine* engine, plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(json, "json");
    const ApiCall call(*engine, "plait_engine_devices", "engine");
    *json = new_text(plan::devices_json(*engine->state->registry));
  });
}

plait_error* plait_plugin_inspect(const char* path, uint64_t size, plait_text** json) {
  return guard_c([&] {
    require(json, "json");
    *json = new_text(plugin::inspect_file(text_argument(path, size, "path")).json());
  });
}

}  // extern "C"
