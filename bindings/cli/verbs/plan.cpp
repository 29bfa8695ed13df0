// plait plan: what a run would execute and need, without running it.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <plait/replay.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/plan_text.hpp"
#include "bindings/cli/ranks.hpp"
#include "bindings/cli/replaced.hpp"
#include "bindings/cli/replay_text.hpp"
#include "bindings/cli/whole_file.hpp"

namespace plait::cli {
namespace {

struct PlanArguments {
  FileArguments file;
  int64_t rank = 0;
  std::string picture, measured;
  std::string ir;  // the name of a program, or kAllPrograms; empty: not asked for
  bool types = false;
  bool verify = false;
  bool every_rank = false;
};

// What CLI11 stores for --ir without a name.
constexpr const char* kAllPrograms = "true";

// The plan of one of the ranks that the experiment asks for.
Plan plan_of(const Experiment& experiment, int64_t rank) {
  const int64_t ranks = ranks_of(Json::parse(experiment.describe()));
  if (rank >= ranks)
    throw CliError(kUsage,
                   strf("[cli] --rank is %lld, but [topology] has ", static_cast<long long>(rank)) +
                       (ranks == 1 ? "only rank 0"
                                   : strf("ranks 0 to %lld", static_cast<long long>(ranks - 1))));
  if (ranks == 1) return Plan(experiment);
  return Plan(experiment, Job(JobSettings{.rank = static_cast<uint32_t>(rank),
                                          .size = static_cast<uint32_t>(ranks)}));
}

int plan_every_rank(Context& context, const Experiment& experiment) {
  const Json job = Json::parse(plait::plan_every_rank(experiment));
  Terminal& t = context.terminal;
  t.record(job);
  if (!t.human()) return kOk;
  show_every_rank(t, job);
  return kOk;
}

CliError no_pipeline() {
  return {kUsage,
          "[cli] --picture draws the schedule of a pipeline, but the experiment has no pipeline; "
          "set topology.pipeline to 2 or more"};
}

int plan_measured(Context& context, const Experiment& experiment, const PlanArguments& arguments) {
  std::ifstream file(arguments.measured, std::ios::binary);
  const std::string profile((std::istreambuf_iterator<char>(file)), {});
  if (!file || profile.empty())
    throw CliError(kUsage, "[cli] cannot read '" + arguments.measured +
                               "', expected a profile; `plait profile FILE --to " +
                               arguments.measured + "` writes one");
  const ReplayTexts texts = replay(experiment, profile);
  if (!arguments.picture.empty()) {
    if (texts.picture.empty()) throw no_pipeline();
    if (print_or_write(context.terminal, arguments.picture, texts.picture)) return kOk;
  }
  const Json made = Json::parse(texts.json);
  context.terminal.record(made);
  if (context.terminal.human()) show_replay(context.terminal, made);
  return kOk;
}

int show_ir(Terminal& t, const Plan& plan, const std::string& program) {
  const std::string text = plan.ir(program == kAllPrograms ? "" : program);
  t.record({{"schema", 1}, {"ir", text}});
  if (t.human()) t.raw(text);
  return kOk;
}

int plan(Context& context, const PlanArguments& arguments) {
  const FileArguments& file = arguments.file;
  check_svg_name("--picture", arguments.picture);
  check_output(context, "plan", "--picture", arguments.picture);
  if (arguments.types && arguments.picture == "-")
    throw both_print("plan", "--picture -", "--types");
  if (arguments.verify) ::setenv("PLAIT_VERIFY", "1", 1);
  Engine engine = context.open_engine();
  const Experiment experiment = Experiment::read(engine, file.path(), file.overrides());
  if (arguments.every_rank) return plan_every_rank(context, experiment);
  if (!arguments.measured.empty()) return plan_measured(context, experiment, arguments);
  const Plan made = plan_of(experiment, arguments.rank);
  if (!arguments.ir.empty()) return show_ir(context.terminal, made, arguments.ir);
  const Json plan = Json::parse(made.describe());
  if (!arguments.picture.empty()) {
    if (!plan.contains("pipeline")) throw no_pipeline();
    if (print_or_write(context.terminal, arguments.picture, made.picture())) return kOk;
  }
  Terminal& t = context.terminal;
  t.record(plan);
  if (!t.human()) return kOk;
  if (arguments.types) {
    show_types(t, plan);
    return kOk;
  }
  show_plan(t, plan,
            t.quiet         ? PlanDetail::kFigures
            : t.verbose > 0 ? PlanDetail::kAll
                            : PlanDetail::kScreen);
  return kOk;
}

}  // namespace

void add_plan(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "plan",
      "shows layers, memory, FLOPs and programs of FILE; touches no device; -v: every parameter "
      "and kernel, -q: parameters and memory alone");
  const auto arguments = std::make_shared<PlanArguments>();
  add_file(*verb, arguments->file);
  CLI::Option* rank = verb->add_option("--rank", arguments->rank, "the rank to plan for; default 0")
                          ->type_name("RANK")
                          ->check(whole_number(0));
  CLI::Option* picture = verb->add_option("--picture", arguments->picture,
                                          "writes the pipeline's schedule as an SVG picture; -: "
                                          "to standard output, in place of text")
                             ->type_name("FILE");
  CLI::Option* measured =
      verb->add_option("--measured", arguments->measured,
                       "predicts a step by the times of a profile of the same model, which `plait "
                       "profile --to` wrote in this or another layout; --picture then shows them")
          ->type_name("PROFILE")
          ->excludes(rank);
  CLI::Option* ir = verb->add_flag(
      "--ir", arguments->ir, "prints the programs as text, an op a line; --ir=NAME: one program");
  CLI::Option* types =
      verb->add_flag("--types", arguments->types,
                     "prints the element types of all operands and results, an op a line")
          ->excludes(ir)
          ->excludes(measured);
  ir->excludes(measured)->excludes(picture);
  verb->add_flag("--every-rank", arguments->every_rank,
                 "plans all ranks: do their calls match and finish, which needs most memory")
      ->excludes(rank)
      ->excludes(picture)
      ->excludes(measured)
      ->excludes(ir)
      ->excludes(types);
  verb->add_flag("--verify", arguments->verify, "checks each program after every rewrite");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return plan(context, *arguments); };
  });
}

}  // namespace plait::cli
