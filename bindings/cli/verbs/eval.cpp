// plait eval: metrics of a checkpoint on a dataset.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/context.hpp"
#include "bindings/cli/metrics.hpp"

namespace plait::cli {
namespace {

struct EvalArguments {
  FileArguments file;
  std::string checkpoint, dataset = "eval";
};

// One rank evaluates, whatever ranks the experiment trains on; evaluation batches keep their size.
std::vector<std::string> on_one_rank(const Json& values) {
  const auto number = [&](const char* key) { return values.at(key).at("value").get<int64_t>(); };
  const int64_t replicas = number("topology.data");
  int64_t micro = number("batch.micro"), batch = number("batch.eval");
  if (micro == 0)
    micro = number("batch.global") / replicas / std::max<int64_t>(1, number("batch.accumulation"));
  if (batch == 0) batch = micro * replicas;
  std::vector<std::string> all = {"topology.data=1",
                                  "topology.tensor=1",
                                  "topology.pipeline=1",
                                  "topology.virtual_stages=1",
                                  "topology.schedule=1f1b",
                                  "topology.stages=[]",
                                  "topology.zero=0",
                                  "batch.accumulation=0",
                                  "batch.micro=" + std::to_string(micro),
                                  "batch.eval=" + std::to_string(batch)};
  // The budget was chosen for the memory of one rank of many.
  if (values.at("topology.recompute").at("value") == "budget")
    all.emplace_back("topology.recompute=layer");
  return all;
}

int eval(Context& context, const EvalArguments& arguments) {
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
  session.load_parameters(arguments.checkpoint);
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
  verb->add_option("--checkpoint", arguments->checkpoint,
                   "a checkpoint, or a run directory: its newest checkpoint")
      ->required()
      ->type_name("DIR");
  verb->add_option("--dataset", arguments->dataset, "evaluates on [data.NAME]")
      ->type_name("NAME")
      ->capture_default_str();
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return eval(context, *arguments); };
  });
}

}  // namespace plait::cli
