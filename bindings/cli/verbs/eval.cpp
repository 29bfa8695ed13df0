// plait eval: figures of a checkpoint on a dataset.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/figures.hpp"

namespace plait::cli {
namespace {

struct EvalArguments {
  FileArguments file;
  std::string checkpoint, dataset = "eval";
};

int eval(Context& context, const EvalArguments& arguments) {
  Engine engine = context.open_engine();
  const Experiment experiment =
      Experiment::read(engine, arguments.file.path(), arguments.file.overrides());
  const Plan plan(experiment);
  SessionSettings settings;
  settings.no_files = true;
  settings.resume = PLAIT_RESUME_NEVER;
  Session session(plan, settings);
  session.load(arguments.checkpoint);
  const Json figures = Json::parse(session.evaluate(arguments.dataset));
  context.terminal.record(figures);
  context.terminal.line(strf("checkpoint of step %lld", figures.value("step", 0LL)));
  show_figures(context.terminal, figures);
  return kOk;
}

}  // namespace

void add_eval(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "eval",
      "evaluates a checkpoint of FILE on a whole data set; data.NAME.limit=N takes N samples");
  const auto arguments = std::make_shared<EvalArguments>();
  add_file(*verb, arguments->file);
  verb->add_option("--checkpoint", arguments->checkpoint,
                   "a checkpoint, or a run directory: the newest one in it")
      ->required()
      ->type_name("DIR");
  verb->add_option("--dataset", arguments->dataset, "NAME of a [data.NAME]")
      ->type_name("NAME")
      ->capture_default_str();
  verb->callback([&context, arguments] {
    context.chosen = [&context, arguments] { return eval(context, *arguments); };
  });
}

}  // namespace plait::cli
