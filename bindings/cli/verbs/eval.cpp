// plait eval: metrics of a checkpoint on a dataset, on the ranks of the experiment.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/checkpoint_argument.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/launch/on_ranks.hpp"
#include "bindings/cli/launch/report.hpp"
#include "bindings/cli/runs/metrics.hpp"

namespace plait::cli {
namespace {

struct EvalArguments {
  FileArguments file;
  std::string checkpoint, dataset = "eval";
  bool one_rank = false;
  int64_t ranks = 0;
};

// Every rank takes part; the first one tells the result.
int evaluate(Context& context, const EvalArguments& arguments, const std::string& checkpoint,
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

int eval(Context& context, const EvalArguments& arguments) {
  const std::string checkpoint = checkpoint_argument(arguments.file, arguments.checkpoint, "eval");
  RankedCommand command;
  command.inspect = [](const Experiment&) {};
  command.work = [&](const Plan& plan, const RankInfo& own) {
    return evaluate(context, arguments, checkpoint, plan, own);
  };
  command.saves = false;
  command.ranks = arguments.ranks;
  command.other_way = "; or evaluate in one process, with --one-rank";
  return arguments.one_rank ? in_one_process(context, arguments.file, command)
                            : on_ranks(context, arguments.file, command);
}

}  // namespace

void add_eval(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "eval",
      "evaluates a checkpoint of FILE on a whole data set, on the ranks of its [topology]; "
      "data.NAME.limit=N uses N samples");
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
  verb->add_flag(
      "--one-rank", arguments->one_rank,
      "evaluates in one process, whatever [topology] asks for; the figures are the same");
  add_ranks(*verb, arguments->ranks);
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return eval(context, *arguments); };
  });
}

}  // namespace plait::cli
