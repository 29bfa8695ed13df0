// plait eval: metrics of a checkpoint on a dataset.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/context.hpp"
#include "bindings/cli/metrics.hpp"
#include "bindings/cli/one_rank.hpp"

namespace plait::cli {
namespace {

struct EvalArguments {
  FileArguments file;
  std::string checkpoint, dataset = "eval";
};

// --checkpoint, or the run directory that was named in place of an experiment.
std::string checkpoint_of(const EvalArguments& arguments) {
  std::error_code ignored;
  if (!arguments.checkpoint.empty()) return arguments.checkpoint;
  if (std::filesystem::is_directory(arguments.file.given + "/ckpt", ignored))
    return arguments.file.given;
  throw CliError(kUsage,
                 "[cli] plait eval needs --checkpoint DIR: a checkpoint, RUN/ckpt/best, or a run "
                 "directory; or a run directory as FILE; see plait eval --help");
}

int eval(Context& context, const EvalArguments& arguments) {
  const std::string checkpoint = checkpoint_of(arguments);
  Engine engine = context.open_engine();
  std::vector<std::string> overrides = arguments.file.overrides();
  const Experiment given = Experiment::read(engine, arguments.file.path(), overrides);
  const auto alone = on_one_rank(Json::parse(given.describe()));
  overrides.insert(overrides.end(), alone.begin(), alone.end());
  const Experiment experiment = Experiment::read(engine, arguments.file.path(), overrides);
  const Plan plan(experiment);
  SessionSettings settings;
  settings.no_files = true;
  settings.resume = PLAIT_RESUME_NEVER;
  Session session(plan, settings);
  session.load_parameters(checkpoint);
  const Json evaluation = Json::parse(session.evaluate(arguments.dataset));
  context.terminal.record(evaluation);
  context.terminal.line(strf("checkpoint of step %lld", evaluation.value("step", 0LL)));
  show_metrics(context.terminal, evaluation);
  return kOk;
}

}  // namespace

void add_eval(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "eval",
      "evaluates a checkpoint of FILE on a whole data set; data.NAME.limit=N uses N samples");
  const auto arguments = std::make_shared<EvalArguments>();
  add_file(*verb, arguments->file);
  verb->add_option(
          "--checkpoint", arguments->checkpoint,
          "a checkpoint, RUN/ckpt/best, or a run directory: its newest checkpoint; default: "
          "FILE, if that is a run directory")
      ->type_name("DIR");
  verb->add_option("--dataset", arguments->dataset, "evaluates on [data.NAME]")
      ->type_name("NAME")
      ->capture_default_str();
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return eval(context, *arguments); };
  });
}

}  // namespace plait::cli
