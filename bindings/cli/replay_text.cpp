#include "bindings/cli/replay_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/terminal/table.hpp"

namespace plait::cli {
namespace {

std::string percent(double share) { return strf("%.1f %%", 100 * share); }

std::string seconds_in(const Json& of, const char* key) { return seconds_text(of.value(key, 0.0)); }

void show_step(Terminal& t, const Json& r) {
  const Json& profile = r.at("profile");
  const long long ranks = profile.value("ranks", 1LL), steps = profile.value("steps", 1LL);
  std::string measured = strf("measured: %s, mean of %lld step%s on %lld rank%s",
                              seconds_in(profile, "step_seconds").c_str(), steps,
                              steps == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s");
  if (profile.contains("schedule"))
    measured += strf(", pipeline %lld, %s", profile.value("pipeline", 1LL),
                     profile.value("schedule", "").c_str());
  t.paragraph(t.bold("a step would take " + seconds_in(r, "step_seconds")) + "  (" + measured +
              ")");
  t.paragraph("  before the passes of the stages " + seconds_in(r, "before_seconds") + ", passes " +
              seconds_in(r, "passes_seconds") + ", update " + seconds_in(r, "after_seconds"));
  t.paragraph("  of an op the median of its calls counts; each launch takes " +
              seconds_in(profile, "launch_seconds") + " outside of kernels" +
              (profile.contains("message_seconds")
                   ? ", a message " + seconds_in(profile, "message_seconds")
                   : std::string()));
}

void show_stages(Terminal& t, const Json& r) {
  if (!r.contains("stages")) return;
  const Json& stages = r.at("stages");
  const long long micros = r.value("micro_batches", 1LL);
  t.paragraph("\n" +
              t.bold(strf("pipeline: %s, %lld micro-batch%s on %lld ranks; ranks idle %s of the "
                          "passes",
                          r.value("schedule", "").c_str(), micros, micros == 1 ? "" : "es",
                          r.value("pipeline", 1LL), percent(r.value("idle_share", 0.0)).c_str())));
  const bool split = stages.front().contains("weight_grad_seconds");
  Table table(split ? "rrrrrrl" : "rrrrrl");
  std::vector<std::string> head{"stage", "pipeline rank", "busy", "forward", "backward"};
  if (split) head.emplace_back("weight grad");
  head.emplace_back("layers");
  table.row(head);
  for (const Json& stage : stages) {
    const Json& layers = stage.at("layers");
    std::vector<std::string> row{
        strf("%lld", stage.value("stage", 0LL)), strf("%lld", stage.value("rank", 0LL)),
        percent(stage.value("busy_share", 0.0)), seconds_in(stage, "forward_seconds"),
        seconds_in(stage, "backward_seconds")};
    if (split) row.push_back(seconds_in(stage, "weight_grad_seconds"));
    std::string names = "(no layer)";
    if (layers.size() == 1) names = layers.front().get<std::string>();
    if (layers.size() > 1)
      names = layers.front().get<std::string>() + " .. " + layers.back().get<std::string>() +
              strf(" (%zu layers)", layers.size());
    const bool slowest = stage.at("stage") == r.at("slowest_stage");
    row.push_back(names + (slowest && stages.size() > 1 ? ", the slowest" : ""));
    table.row(row);
  }
  t.raw(table.fitted("  ", t.columns(), t.utf8()));
}

void show_alternatives(Terminal& t, const Json& r) {
  const Json& all = r.at("alternatives");
  if (all.empty()) return;
  Table table("lrrr");
  table.row({"with", "step", "", "idle"});
  const double now = r.value("step_seconds", 0.0);
  for (const Json& one : all) {
    const double seconds = one.value("step_seconds", 0.0);
    table.row({one.value("change", ""), seconds_text(seconds),
               now > 0 ? strf("%+.1f %%", 100 * (seconds / now - 1)) : "",
               percent(one.value("idle_share", 0.0))});
  }
  t.paragraph("\n" + t.bold("other schedules and splits") + "  (update as now)");
  t.raw(table.fitted("  ", t.columns(), t.utf8()));
}

// What makes the prediction less certain.
void show_doubts(Terminal& t, const Json& r) {
  const Json& unknown = r.at("not_measured");
  for (const Json& doubt : r.at("doubts")) t.paragraph("note: " + doubt.get<std::string>());
  if (unknown.empty()) return;
  constexpr size_t kMost = 4;
  std::string names;
  for (size_t i = 0; i < std::min(kMost, unknown.size()); ++i)
    names += (i ? ", " : "") + unknown[i].value("op", "");
  if (unknown.size() > kMost) names += strf(" and %zu more", unknown.size() - kMost);
  t.paragraph("note: the profile has nothing like " + names +
              strf("; %s of the FLOPs were measured, ",
                   percent(r.value("measured_flops_share", 0.0)).c_str()) +
              "and the rest takes no time here");
}

}  // namespace

void show_replay(Terminal& t, const Json& replay) {
  show_step(t, replay);
  show_stages(t, replay);
  show_alternatives(t, replay);
  show_doubts(t, replay);
}

}  // namespace plait::cli
