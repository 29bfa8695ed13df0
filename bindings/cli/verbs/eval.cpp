// plait eval: metrics of a checkpoint on a dataset, on the ranks of the experiment.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/checkpoint_argument.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/launch/checkpoint_command.hpp"
#include "bindings/cli/launch/report.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/runs/requirement.hpp"
#include "bindings/cli/terminal/waiting.hpp"

namespace plait::cli {
namespace {

struct EvalArguments : CheckpointArguments {
  std::vector<std::string> required;
};

// All of a list of requirements that the evaluation does not meet.
void check_required(const std::vector<Requirement>& required, const Json& evaluation) {
  std::string faults;
  for (const Requirement& one : required)
    if (const std::string fault = one.fault(evaluation); !fault.empty())
      faults += (faults.empty() ? "" : "; ") + fault;
  if (!faults.empty())
    throw CliError(kFailed, "[eval] --require is not met by [data." +
                                evaluation.value("dataset", "eval") + "]: " + faults);
}

// Every rank takes part; the first one tells the result. shown: run.progress.
int evaluate(Context& context, const EvalArguments& arguments, const std::string& checkpoint,
             const Plan& plan, const RankInfo& own, bool shown) {
  std::vector<Requirement> required;
  for (const std::string& text : arguments.required) required.emplace_back(text);
  SessionSettings settings;
  settings.no_files = true;
  settings.resume = PLAIT_RESUME_NEVER;
  settings.progress = context.terminal.progress();
  Waiting waiting(context.terminal, "opening: memory, weights, data", shown);
  Session session = context.open_session(plan, settings);
  report_connected();
  session.load_parameters(checkpoint);
  waiting.end();
  const Json evaluation = Json::parse(session.evaluate(arguments.dataset));
  if (own.rank == 0) {
    context.terminal.record(evaluation);
    context.terminal.line(strf("checkpoint of step %lld", evaluation.value("step", 0LL)));
    show_metrics(context.terminal, evaluation);
  }
  if (required.empty()) return kOk;
  session.any_rank(false);  // the result is told
  check_required(required, evaluation);
  return kOk;
}

int eval(Context& context, const EvalArguments& arguments) {
  for (const std::string& text : arguments.required) Requirement{text};  // before anything starts
  const std::string checkpoint = checkpoint_argument(arguments.file, arguments.checkpoint, "eval");
  RankedCommand command;
  bool shown = true;
  command.inspect = [&](const Experiment& experiment) {
    shown = Json::parse(experiment.describe()).at("run.progress").value("value", true);
  };
  command.work = [&](const Plan& plan, const RankInfo& own) {
    return evaluate(context, arguments, checkpoint, plan, own, shown);
  };
  return run_on_checkpoint(context, arguments, "evaluate", command);
}

}  // namespace

void add_eval(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "eval",
      "evaluates a checkpoint of FILE on a whole data set, on the ranks of its [topology]; "
      "data.NAME.limit=N uses N samples");
  const auto arguments = std::make_shared<EvalArguments>();
  add_checkpoint_arguments(*verb, *arguments, "evaluates");
  verb->add_option("--require", arguments->required,
                   "what a metric or the loss has to be, as in 'accuracy>=0.97', else the exit "
                   "code is 1; may be repeated")
      ->type_name("CONDITION")
      ->allow_extra_args(false);
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return eval(context, *arguments); };
  });
}

}  // namespace plait::cli
