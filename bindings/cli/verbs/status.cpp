// plait status: where a run stands.
#include <CLI/CLI.hpp>
#include <cmath>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/runs/last_calls.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/runs/run_record.hpp"

namespace plait::cli {
namespace {

// A run directory, or the newest one below a folder.
std::string run_of(const std::string& given) {
  const std::vector<std::string> all = find_runs(given);
  if (all.empty())
    throw CliError(kUsage, "[cli] there is no run in '" + given +
                               "'; name a run directory, or a folder of runs (run.out)");
  return all.back();
}

std::string values_text(const RunRecord& run, bool of_evaluation) {
  std::string text;
  for (const auto& [name, value] : run.values)
    if ((name.find('/') != std::string::npos) == of_evaluation &&
        (of_evaluation || name == "loss" || name == "mean_loss" || name == "lr" ||
         name == "tokens_per_s" || name == "samples_per_s"))
      text += (text.empty() ? "" : ", ") + name + " " + value_text(name, value);
  return text;
}

void show(Terminal& t, const RunRecord& run, const std::vector<ApartGroup>& calls, double now) {
  const bool runs = run.state == "running";
  std::string head = t.bold(run.path) + ": " + t.bold(run.state);
  if (run.started > 0)
    head +=
        runs ? " for " + duration_text(now - run.started) : ", started " + time_text(run.started);
  if (!run.host.empty())
    head += " on " + run.host +
            strf(" (process %lld, %s)", static_cast<long long>(run.process), run.device.c_str());
  t.paragraph(head);
  if (run.state == "lost")
    t.paragraph("  its process has ended without recording why: killed, or the machine went down");
  std::string steps = strf("  step %lld", static_cast<long long>(run.step));
  // A run that was resumed with fewer steps is beyond the last of them.
  if (run.steps > 0 && run.step > run.steps)
    steps += strf(", beyond the %lld asked for", static_cast<long long>(run.steps));
  else if (run.steps > 0)
    steps += strf(" of %lld (%.0f %%)", static_cast<long long>(run.steps),
                  100 * static_cast<double>(run.step) / static_cast<double>(run.steps));
  if (run.steps_per_s > 0) {
    steps += ", " + rate_number(run.steps_per_s) + " steps/s";
    if (runs && run.steps > run.step)
      steps += ", " +
               duration_text((static_cast<double>(run.steps) - static_cast<double>(run.step)) /
                             run.steps_per_s) +
               " left";
  }
  t.paragraph(steps);
  if (const std::string text = values_text(run, false); !text.empty()) t.paragraph("  " + text);
  if (const std::string text = values_text(run, true); !text.empty())
    t.paragraph(strf("  at step %lld: ", static_cast<long long>(run.evaluated_at)) + text);
  if (!run.message.empty()) t.paragraph("  " + plain(run.message));
  for (const ApartGroup& group : calls) t.paragraph("  " + text_of(group));
  if (run.restarts > 0)
    t.paragraph("  restarted " + counted(run.restarts, "time") +
                ", the newest time after: " + plain(run.restarted_for));
  t.paragraph(run.checkpoint.empty() ? "  no checkpoint" : "  checkpoint " + run.checkpoint);
  if (run.state != "running" && run.state != "done" && !run.checkpoint.empty())
    t.line("  to resume: plait run " + path_word(run.path) + " --run-dir " + path_word(run.path) +
           " --resume must");
}

int status(Context& context, const std::string& given) {
  RunRecord run = read_run(run_of(given));
  read_values(run);
  Json record = {{"schema", 1}};
  record.update(record_of(run));
  // A resumed run removes them as it begins.
  const std::vector<ApartGroup> calls = last_calls(run.path);
  record["collectives"] = Json::array();
  for (const ApartGroup& group : calls) record["collectives"].push_back(record_of(group));
  context.terminal.record(record);
  if (context.terminal.human())
    show(context.terminal, run, calls, static_cast<double>(time(nullptr)));
  return kOk;
}

}  // namespace

void add_status(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("status", "shows where a run stands, and whether it is alive");
  const auto given = std::make_shared<std::string>("runs");
  verb->add_option("RUN", *given, "a run directory, or a folder of runs: the newest; default: runs")
      ->type_name("DIR");
  verb->callback([&context, given] {
    context.run_command = [&context, given] { return status(context, *given); };
  });
}

}  // namespace plait::cli
