// plait eval: figures of a checkpoint on a dataset.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/figures.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

struct EvalArguments {
  FileArguments file;
  std::string checkpoint, dataset = "eval";
};

// The run directory that `path` means: itself where it has a ckpt folder, its parent where it is one; "" for a checkpoint.
std::string run_dir_of(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    throw Fault(kUsage, "[cli] --checkpoint '" + path.string() + "' is no folder; name a run directory, or one checkpoint in its ckpt folder");
  if (fs::is_directory(path / "ckpt", ignored)) return path;
  fs::path whole = fs::absolute(path, ignored).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  return whole.filename() == "ckpt" ? whole.parent_path().string() : "";
}

int eval(Context& context, const EvalArguments& arguments) {
  Engine engine = context.open_engine();
  const std::string run_dir = run_dir_of(arguments.checkpoint);
  const Experiment experiment = Experiment::read(engine, arguments.file.path(), arguments.file.overrides());
  const Plan plan(experiment);
  SessionSettings settings;
  settings.no_files = true;
  settings.resume = run_dir.empty() ? PLAIT_RESUME_NEVER : PLAIT_RESUME_MUST;
  settings.run_dir = run_dir;
  Session session(plan, settings);
  if (run_dir.empty()) session.load(arguments.checkpoint);
  Json figures = Json::parse(session.evaluate(arguments.dataset));
  figures["step"] = Json::parse(session.describe()).value("step", 0LL);
  context.terminal.record(figures);
  context.terminal.line(strf("checkpoint of step %lld", figures.value("step", 0LL)));
  show_figures(context.terminal, figures);
  return kOk;
}

}  // namespace

void add_eval(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("eval", "evaluates a checkpoint of FILE");
  const auto arguments = std::make_shared<EvalArguments>();
  add_file(*verb, arguments->file);
  verb->add_option("--checkpoint", arguments->checkpoint, "a run directory (its newest checkpoint), or one checkpoint")
      ->required()
      ->type_name("DIR");
  verb->add_option("--dataset", arguments->dataset, "NAME of a [data.NAME]")->type_name("NAME")->capture_default_str();
  verb->callback([&context, arguments] { context.chosen = [&context, arguments] { return eval(context, *arguments); }; });
}

}  // namespace plait::cli
