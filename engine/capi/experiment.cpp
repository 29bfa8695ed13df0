// Experiments and plans.
#include <plait/replay.h>

#include <filesystem>
#include <optional>

#include "engine/base/text.hpp"
#include "engine/capi/objects.hpp"
#include "engine/checkpoint/probe_weights.hpp"
#include "engine/config/bind.hpp"
#include "engine/config/extends.hpp"
#include "engine/plan/describe.hpp"
#include "engine/plan/describe_pipeline.hpp"
#include "engine/plan/every_rank.hpp"
#include "engine/plan/plan_builder.hpp"
#include "engine/plan/print_programs.hpp"
#include "engine/plan/replay.hpp"
#include "engine/runtime/backend_needs.hpp"
#include "engine/session/check_run.hpp"

using namespace plait;
using namespace plait::capi;

namespace {

struct LoadedExperiment {
  bool read = false;  // the experiment is there, with all that could be read of it
  config::Document document;
  config::Experiment experiment;
  config::PathResolver resolver;
  std::vector<std::string> overrides;
};

// The experiment's own plugins. False: items may be missing for want of them.
bool load_plugins(EngineState& engine, const config::Document& document,
                  config::Problems& problems) {
  config::Problems told_later;  // by load_experiment()
  const config::PluginsConfig plugins = config::plugins_config(document, told_later);
  if (plugins.paths.empty()) return true;
  try {
    engine.registry->load_all(
        plugin::named_search_paths(plugins.paths, "experiment", document.folder));
    return true;
  } catch (const Error& e) {
    problems.add(document.root.find("plugins").find("paths").origin(), "plugins.paths",
                 e.full_text(), "", e.code());
    return false;
  }
}

// Overrides, the experiment's own plugins, then the check of everything.
LoadedExperiment load(EngineState& engine, config::Document document,
                      const plait_experiment_options* options, config::Problems& problems) {
  const auto o = read_options(options, kExperimentOptionsV1, "plait_experiment_options");
  LoadedExperiment l;
  const bool syntax = problems.empty();
  for (uint32_t i = 0; i < o.n_overrides; ++i) {
    require(o.overrides, "overrides");
    require(o.overrides[i], "override");
    l.overrides.emplace_back(o.overrides[i]);
    config::apply_override(document, o.overrides[i], problems);
  }
  l.resolver = {&engine.files, engine.data_folder, document.folder};
  if (syntax && load_plugins(engine, document, problems)) {
    l.experiment = config::load_experiment(document, *engine.registry, l.resolver, problems);
    l.read = true;
  }
  l.document = std::move(document);
  return l;
}

std::unique_ptr<const plan::Plan> plan_of(const std::shared_ptr<EngineState>& engine,
                                          const config::Experiment& experiment,
                                          const config::PathResolver& resolver,
                                          config::Problems& problems, const runtime::Job* job) {
  plan::PlanContext context{shared_registry(engine), &engine->log, resolver};
  context.rank = job ? job->rank : 0;
  context.world = job ? job->size : 0;
  std::optional<plugin::JobScope> scope;  // without a job plugins see that of the environment
  if (job) scope.emplace(runtime::place_of(*job));
  CallMark mark(*engine->watch, experiment.run.plugin_timeout);
  const WatchedThread watched(&mark);
  return plan::make_plan(experiment, context, problems);
}

// A run needs the weights that it starts from. A plan does not, and neither does one that resumes.
void check_weights(EngineState& engine, const config::Experiment& experiment,
                   config::Problems& problems) {
  const auto check = [&](const std::string& path, const std::string& owner, const char* name,
                         const config::OptionSet& keys, auto&& probe) {
    const std::string key = owner + "." + name;
    try {
      if (!path.empty()) probe(engine.files, key, path);
    } catch (const Error& e) {
      problems.add(keys.origin(name), key, e.full_text(), "", e.code());
    }
  };
  for (const auto& [path, keys] : experiment.sections)
    if (path == "run") check(experiment.run.from, path, "from", keys, checkpoint::probe_checkpoint);
  for (const config::ModelConfig& model : experiment.models) {
    check(model.load, model.path, "load", model.keys, checkpoint::probe_weights);
    for (const config::AdapterConfig& adapter : model.adapters)
      check(adapter.load, adapter.path, "load", adapter.keys, checkpoint::probe_weights);
  }
}

void make_experiment(plait_engine* engine, config::Document document,
                     const plait_experiment_options* options, config::Problems& problems,
                     plait_experiment** out) {
  LoadedExperiment l = load(*engine->state, std::move(document), options, problems);
  problems.raise_if_any();
  *out = new plait_experiment{engine->state, std::move(l.document), std::move(l.experiment),
                              std::move(l.resolver), std::move(l.overrides)};
}

}  // namespace

config::Experiment plait::capi::read_experiment(EngineState& engine, const std::string& path) {
  config::Problems problems;
  auto document = config::Document::read(engine.files, path, problems);
  LoadedExperiment l = load(engine, std::move(document), nullptr, problems);
  problems.raise_if_any();
  return std::move(l.experiment);
}

extern "C" {

plait_error* plait_experiment_read(plait_engine* engine, const char* path, uint64_t size,
                                   const plait_experiment_options* options,
                                   plait_experiment** out) {
  return guard_c([&] {
    require(engine, "engine");
    require(out, "out");
    const ApiCall call(*engine, "plait_experiment_read", "engine");
    config::Problems problems;
    auto document =
        config::Document::read(engine->state->files, text_argument(path, size, "path"), problems);
    make_experiment(engine, std::move(document), options, problems, out);
  });
}

plait_error* plait_experiment_parse(plait_engine* engine, const char* toml, uint64_t size,
                                    const char* name, const plait_experiment_options* options,
                                    plait_experiment** out) {
  return guard_c([&] {
    require(engine, "engine");
    require(out, "out");
    const ApiCall call(*engine, "plait_experiment_parse", "engine");
    config::Problems problems;
    auto document = config::Document::parse(text_argument(toml, size, "toml"),
                                            name ? name : "experiment", problems);
    config::extend(engine->state->files, document, problems);
    make_experiment(engine, std::move(document), options, problems, out);
  });
}

plait_error* plait_experiment_check(plait_engine* engine, const char* path, uint64_t size,
                                    const plait_experiment_options* options, plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(json, "json");
    const ApiCall call(*engine, "plait_experiment_check", "engine");
    config::Problems problems;
    const std::string file = text_argument(path, size, "path");
    LoadedExperiment l =
        load(*engine->state, config::Document::read(engine->state->files, file, problems), options,
             problems);
    if (l.read) {
      // Whatever else tracing and planning find becomes a problem of the file as well.
      std::unique_ptr<const plan::Plan> plan;
      try {
        plan = plan_of(engine->state, l.experiment, l.resolver, problems, nullptr);
      } catch (const Error& e) {
        problems.add(l.experiment.origin, "", e.full_text());
      }
      check_weights(*engine->state, l.experiment, problems);
      if (plan) session::check_run(*plan, engine->state->files, problems);
    }
    *json = new_text(problems.json());
  });
}

plait_error* plait_experiment_bind(plait_experiment* experiment, plait_text** toml) {
  return guard_c([&] {
    require(experiment, "experiment");
    require(toml, "toml");
    *toml = new_text(config::bind(experiment->experiment, *experiment->engine->registry));
  });
}

plait_error* plait_experiment_describe(plait_experiment* experiment, plait_text** json) {
  return guard_c([&] {
    require(experiment, "experiment");
    require(json, "json");
    *json = new_text(config::describe_json(experiment->experiment));
  });
}

void plait_experiment_close(plait_experiment* experiment) { delete experiment; }

plait_error* plait_plan_make(plait_experiment* experiment, plait_plan** out) {
  return plait_plan_make_for(experiment, nullptr, out);
}

plait_error* plait_plan_make_for(plait_experiment* experiment, const plait_job* job,
                                 plait_plan** out) {
  return guard_c([&] {
    require(experiment, "experiment");
    require(out, "out");
    experiment->engine->check_own("plait_plan_make_for", "experiment");
    config::Problems problems;
    std::shared_ptr<const plan::Plan> plan =
        plan_of(experiment->engine, experiment->experiment, experiment->resolver, problems,
                job ? &job->job : nullptr);
    problems.raise_if_any();
    *out = new plait_plan{experiment->engine, std::move(plan), experiment->overrides,
                          job ? job->job : runtime::Job()};
  });
}

plait_error* plait_plan_describe(plait_plan* plan, plait_text** json) {
  return guard_c([&] {
    require(plan, "plan");
    require(json, "json");
    *json = new_text(plan::describe(*plan->plan, runtime::shared_memory_of(*plan->plan)));
  });
}

plait_error* plait_plan_ir(plait_plan* plan, const char* program, uint64_t size,
                           plait_text** text) {
  return guard_c([&] {
    require(plan, "plan");
    require(text, "text");
    *text = new_text(plan::print_programs(
        *plan->plan, program ? text_argument(program, size, "program") : std::string()));
  });
}

plait_error* plait_plan_picture(plait_plan* plan, plait_text** svg) {
  return guard_c([&] {
    require(plan, "plan");
    require(svg, "svg");
    *svg = new_text(plan::schedule_svg(*plan->plan));
  });
}

plait_error* plait_plan_every_rank(plait_experiment* experiment, plait_text** json) {
  return guard_c([&] {
    require(experiment, "experiment");
    require(json, "json");
    const std::shared_ptr<EngineState>& engine = experiment->engine;
    CallMark mark(*engine->watch, experiment->experiment.run.plugin_timeout);
    const WatchedThread watched(&mark);
    config::Problems problems;
    const auto job = plan::plan_every_rank(
        experiment->experiment, {shared_registry(engine), &engine->log, experiment->resolver},
        problems);
    problems.raise_if_any();
    *json = new_text(plan::describe(*job));
  });
}

plait_error* plait_plan_replay(plait_experiment* experiment, const char* profile, uint64_t size,
                               plait_text** json, plait_text** svg) {
  return guard_c([&] {
    require(experiment, "experiment");
    require(profile, "profile");
    require(json, "json");
    const std::shared_ptr<EngineState>& engine = experiment->engine;
    CallMark mark(*engine->watch, experiment->experiment.run.plugin_timeout);
    const WatchedThread watched(&mark);
    config::Problems problems;
    plan::ReplayTexts made = plan::replay(
        experiment->experiment, {shared_registry(engine), &engine->log, experiment->resolver},
        text_argument(profile, size, "profile"), problems);
    problems.raise_if_any();
    std::unique_ptr<plait_text> text(new_text(std::move(made.json)));
    if (svg) *svg = made.svg.empty() ? nullptr : new_text(std::move(made.svg));
    *json = text.release();
  });
}

void plait_plan_close(plait_plan* plan) { delete plan; }

}  // extern "C"
