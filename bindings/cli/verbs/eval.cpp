// plait eval: metrics of a checkpoint on a dataset, on the ranks of the experiment.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "bindings/cli/checkpoint_argument.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/launch/checkpoint_command.hpp"
#include "bindings/cli/launch/report.hpp"
#include "bindings/cli/runs/metrics.hpp"

namespace plait::cli {
namespace {

// Every rank takes part; the first one tells the result.
int evaluate(Context& context, const CheckpointArguments& arguments, const std::string& checkpoint,
             const Plan& plan, const RankInfo& own) {
  SessionSettings settings;
  settings.no_files = true;
  settings.resume = PLAIT_RESUME_NEVER;
  Session session(plan, settings);
  report_connected();
  session.load_parameters(checkpoint);
  const Json evaluation = Json::parse(session.evaluate(arguments.dataset));
  if (own.rank != 0) return kOk;
  context.terminal.record(evaluation);
  context.terminal.line(strf("checkpoint of step %lld", evaluation.value("step", 0LL)));
  show_metrics(context.terminal, evaluation);
  return kOk;
}

int eval(Context& context, const CheckpointArguments& arguments) {
  const std::string checkpoint = checkpoint_argument(arguments.file, arguments.checkpoint, "eval");
  RankedCommand command;
  command.inspect = [](const Experiment&) {};
  command.work = [&](const Plan& plan, const RankInfo& own) {
    return evaluate(context, arguments, checkpoint, plan, own);
  };
  return run_on_checkpoint(context, arguments, "evaluate", command);
}

}  // namespace

void add_eval(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "eval",
      "evaluates a checkpoint of FILE on a whole data set, on the ranks of its [topology]; "
      "data.NAME.limit=N uses N samples");
  const auto arguments = std::make_shared<CheckpointArguments>();
  add_checkpoint_arguments(*verb, *arguments, "evaluates");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return eval(context, *arguments); };
  });
}

}  // namespace plait::cli
