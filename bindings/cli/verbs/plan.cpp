// plait plan: what a run would do and need, without doing it.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/table.hpp"

namespace plait::cli {
namespace {

std::string shape_text(const Json& shape) {
  std::string text = "(";
  for (const Json& extent : shape) text += (text.size() > 1 ? ", " : "") + extent.dump();
  return text + ")";
}

std::string list_text(const Json& texts) {
  std::string all;
  for (const Json& text : texts) all += (all.empty() ? "" : " ") + text.get<std::string>();
  return all;
}

void show_head(Terminal& t, const Json& plan) {
  t.line(t.bold(plan.value("name", "")) +
         strf(" on %s (%lld threads): %lld steps of %lld samples, in passes of %lld",
              plan.value("device", "").c_str(), plan.value("threads", 0LL),
              plan.value("steps", 0LL), plan.value("global_batch", 0LL),
              plan.value("micro_batch", 0LL)));
}

void show_parameters(Terminal& t, const Json& plan) {
  Table table("lll");
  for (const Json& p : plan.value("parameters", Json::array()))
    table.row({p.value("name", ""),
               p.value("dtype", "") + " " + shape_text(p.value("shape", Json::array())),
               p.value("group", "")});
  t.line("\n" + t.bold(strf("parameters: %lld, of them trained: %lld",
                            plan.value("parameter_count", 0LL), plan.value("trained_count", 0LL))));
  t.raw(table.text("  "));
}

void show_memory(Terminal& t, const Json& plan) {
  Table table("lrr");
  const Json memory = plan.value("memory", Json::object());
  for (const auto& [name, bytes] : memory.items())
    table.row(
        {name, bytes.is_number() ? bytes_text(bytes.get<double>()) : bytes.dump(), bytes.dump()});
  t.line("\n" + t.bold("memory") +
         "  (arena: all of the device's; total: with what the host keeps of the data)");
  t.raw(table.text("  "));
}

void show_programs(Terminal& t, const Json& plan) {
  t.line("\n" +
         t.bold("programs: " + scaled(plan.value("flops_per_step", 0.0), "FLOP") + " per step"));
  for (const Json& program : plan.value("programs", Json::array())) {
    t.line("  " + t.bold(program.value("name", "")) + ": " +
           scaled(program.value("flops", 0.0), "FLOP") + ", " +
           bytes_text(program.value("transient_bytes", 0.0)) + " of intermediate values");
    Table table("llrll");
    for (const Json& k : program.value("kernels", Json::array()))
      table.row({k.value("op", ""), k.value("kernel", ""), scaled(k.value("flops", 0.0), ""),
                 k.value("scope", ""),
                 list_text(k.value("inputs", Json::array())) + " -> " +
                     list_text(k.value("outputs", Json::array()))});
    t.raw(table.text("    "));
  }
}

int plan(Context& context, const FileArguments& file) {
  Engine engine = context.open_engine();
  const Experiment experiment = Experiment::read(engine, file.path(), file.overrides());
  const Json plan = Json::parse(Plan(experiment).describe());
  Terminal& t = context.terminal;
  t.record(plan);
  if (!t.human()) return kOk;
  show_head(t, plan);
  show_parameters(t, plan);
  show_memory(t, plan);
  show_programs(t, plan);
  return kOk;
}

}  // namespace

void add_plan(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "plan", "shows parameters, memory, work and programs of FILE; touches no device");
  const auto file = std::make_shared<FileArguments>();
  add_file(*verb, *file);
  verb->callback(
      [&context, file] { context.chosen = [&context, file] { return plan(context, *file); }; });
}

}  // namespace plait::cli
