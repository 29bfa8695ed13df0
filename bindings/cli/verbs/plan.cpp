// plait plan: what a run would execute and need, without running it.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/ranks.hpp"
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
         strf(" on %s (%lld threads): %lld steps of %lld samples, in micro-batches of %lld",
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
  t.line("\n" + t.bold(strf("parameters: %lld (%lld trained)", plan.value("parameter_count", 0LL),
                            plan.value("trained_count", 0LL))));
  t.raw(table.text("  "));
}

void show_memory(Terminal& t, const Json& plan) {
  Table table("lrr");
  const Json memory = plan.value("memory", Json::object());
  for (const auto& [name, bytes] : memory.items())
    table.row(
        {name, bytes.is_number() ? bytes_text(bytes.get<double>()) : bytes.dump(), bytes.dump()});
  t.line("\n" + t.bold("memory") + "  (arena: all device memory; total: including host memory)");
  t.raw(table.text("  "));
}

std::string percent(double share) { return strf("%.1f %%", 100 * share); }

// All of a few names, else the first and the last.
std::string few_text(const Json& names) {
  if (names.size() <= 4) return names.empty() ? "(no layer)" : list_text(names);
  return names.front().get<std::string>() + " .. " + names.back().get<std::string>() +
         strf(" (%zu layers)", names.size());
}

void show_pipeline(Terminal& t, const Json& plan) {
  const auto found = plan.find("pipeline");
  if (found == plan.end()) return;
  const Json& p = *found;
  const long long micros = p.value("micro_batches", 0LL);
  std::string idle = "ranks idle " + percent(p.value("idle_share", 0.0)) + " of the time";
  if (const auto more = p.find("doubled"); more != p.end())
    idle += strf(", %s with %lld micro-batches", percent(more->value("idle_share", 0.0)).c_str(),
                 more->value("micro_batches", 0LL));
  t.line("\n" +
         t.bold(strf("pipeline: %s, %lld micro-batch%s per step on %lld ranks; ",
                     p.value("schedule", "").c_str(), micros, micros == 1 ? "" : "es",
                     p.value("ranks", 0LL)) +
                idle) +
         "  (by FLOPs; messages are free)");
  const bool split = p.value("split_backward", false);
  Table table(split ? "rrrrrrl" : "rrrrrl");
  std::vector<std::string> head{"stage", "rank", "idle", "forward", "backward"};
  if (split) head.emplace_back("weight grad");
  head.emplace_back("layers");
  table.row(head);
  for (const Json& stage : p.value("stages", Json::array())) {
    const size_t rank = stage.value("rank", size_t{0});
    std::vector<std::string> row{strf("%lld", stage.value("stage", 0LL)), strf("%zu", rank),
                                 percent(p.at("idle").at(rank).get<double>()),
                                 scaled(stage.value("forward_flops", 0.0), "FLOP"),
                                 scaled(stage.value("backward_flops", 0.0), "FLOP")};
    if (split) row.push_back(scaled(stage.value("weight_grad_flops", 0.0), "FLOP"));
    row.push_back(few_text(stage.value("layers", Json::array())));
    table.row(row);
  }
  t.raw(table.text("  "));
  const long long held = p.value("in_flight_micro_batches", 0LL);
  t.line(strf(
      "  pipeline rank %lld holds activations of at most %lld micro-batch%s (activations below)",
      p.value("rank", 0LL), held, held == 1 ? "" : "es"));
}

// A collective in the columns of a kernel: kind, axis, bytes, scope, name.
std::vector<std::string> collective_row(const Json& k) {
  const Json& e = k.at("collective");
  const bool starts = k.value("op", "") == "collective_start";
  std::string what = e.value("name", "");
  if (const auto peer = e.find("peer"); peer != e.end())
    what += (e.value("kind", "") == "send" ? ", to rank " : ", from rank ") + peer->dump();
  else if (starts)
    what += strf(", %lld ranks", e.value("ranks", 0LL));
  return {starts ? e.value("kind", "") : "wait", e.value("axis", ""),
          starts ? bytes_text(e.value("bytes", 0.0)) : "", k.value("scope", ""), what};
}

std::vector<std::string> kernel_row(const Json& k) {
  return {k.value("op", ""), k.value("kernel", ""), scaled(k.value("flops", 0.0), ""),
          k.value("scope", ""),
          list_text(k.value("inputs", Json::array())) + " -> " +
              list_text(k.value("outputs", Json::array()))};
}

// "zero_grad, forward_backward (0-2), forward_backward_reduce (3), update": the launches of a step
// in order, with their micro-batches.
std::string launches_text(const Json& launches) {
  constexpr size_t kMostRuns = 32;
  std::string all;
  size_t runs = 0;
  for (size_t i = 0; i < launches.size();) {
    const Json& first = launches[i];
    size_t end = i + 1;
    while (end < launches.size() && launches[end].at("program") == first.at("program")) ++end;
    if (runs++ == kMostRuns) return all + strf(", %zu more (--json has all)", launches.size() - i);
    all += (all.empty() ? "" : ", ") + first.value("program", "");
    if (first.contains("micro_batch")) {
      const long long from = first.value("micro_batch", 0LL),
                      to = launches[end - 1].value("micro_batch", 0LL);
      all += from == to ? strf(" (%lld)", from) : strf(" (%lld-%lld)", from, to);
    }
    i = end;
  }
  return all;
}

// What a session can run, each with its programs.
void show_entry_points(Terminal& t, const Json& plan) {
  Table table("lrrrrl");
  table.row({"entry point", "samples", "FLOPs", "sent", "transient", "programs"});
  for (const Json& e : plan.value("entry_points", Json::array())) {
    std::string programs;
    for (const Json& p : e.value("programs", Json::array()))
      programs += (programs.empty() ? "" : ", ") + p.get<std::string>();
    table.row({e.value("name", ""), strf("%lld", e.value("samples", 0LL)),
               scaled(e.value("flops", 0.0), ""), bytes_text(e.value("sent_bytes", 0.0)),
               bytes_text(e.value("transient_bytes", 0.0)), programs});
  }
  t.line("\n" + t.bold("entry points") + "  (samples: of a micro-batch of this rank)");
  t.raw(table.text("  "));
}

// What reports of speed count by.
void show_model_flops(Terminal& t, const Json& plan) {
  const Json flops = plan.value("model_flops", Json::object());
  const auto text = [&](const char* end) {
    const double masked = flops.value("per_step" + std::string(end), 0.0);
    std::string all = scaled(masked, "FLOP") + " per step";
    if (flops.contains("per_token"))
      all += ", " + scaled(flops.value("per_token" + std::string(end), 0.0), "FLOP") + " per token";
    return all;
  };
  const bool masks = flops.value("per_step_full", 0.0) > flops.value("per_step", 0.0);
  t.line("  of the model (products, without recompute): " + text("") +
         (masks ? "; attention without its mask: " + text("_full") : ""));
}

void show_programs(Terminal& t, const Json& plan) {
  const double sent = plan.value("sent_bytes_per_step", 0.0);
  t.line("\n" +
         t.bold("programs: " + scaled(plan.value("flops_per_step", 0.0), "FLOP") + " per step" +
                (sent > 0 ? ", " + bytes_text(sent) + " sent to other ranks" : "")));
  show_model_flops(t, plan);
  t.line("  a step launches, by micro-batch: " +
         launches_text(plan.value("launches", Json::object()).value("step", Json::array())));
  for (const Json& program : plan.value("programs", Json::array())) {
    t.line("  " + t.bold(program.value("name", "")) + ": " +
           scaled(program.value("flops", 0.0), "FLOP") + ", " +
           bytes_text(program.value("transient_bytes", 0.0)) + " of transient values");
    Table table("llrll");
    for (const Json& k : program.value("kernels", Json::array()))
      table.row(k.contains("collective") ? collective_row(k) : kernel_row(k));
    t.raw(table.text("    "));
  }
}

// The element type and the dims of each operand and result, op by op.
void show_types(Terminal& t, const Json& plan) {
  for (const Json& program : plan.value("programs", Json::array())) {
    t.line("\n" + t.bold(program.value("name", "")));
    Table table("lll");
    for (const Json& k : program.value("kernels", Json::array()))
      table.row({k.value("op", ""), k.value("scope", ""),
                 list_text(k.value("inputs", Json::array())) + " -> " +
                     list_text(k.value("outputs", Json::array()))});
    t.raw(table.text("  "));
  }
}

struct PlanArguments {
  FileArguments file;
  int64_t rank = 0;
  std::string picture;
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
  if (rank < 0 || rank >= ranks)
    throw CliError(kUsage,
                   strf("[cli] --rank is %lld, but [topology] has ", static_cast<long long>(rank)) +
                       (ranks == 1 ? "only rank 0"
                                   : strf("ranks 0 to %lld", static_cast<long long>(ranks - 1))));
  if (ranks == 1) return Plan(experiment);
  return Plan(experiment, Job(JobSettings{.rank = static_cast<uint32_t>(rank),
                                          .size = static_cast<uint32_t>(ranks)}));
}

void write_picture(const Plan& plan, const std::string& path) {
  const std::string svg = plan.picture();
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << svg;
  file.close();
  if (!file)
    throw CliError(kEnvironment, "[cli] cannot write '" + path + "': " + std::strerror(errno));
}

std::string number_list(const Json& numbers) {
  std::string all;
  for (const Json& n : numbers) all += (all.empty() ? "" : ", ") + n.dump();
  return all;
}

// A rank with its place in the grid, and its memory as a table.
void show_fullest(Terminal& t, const Json& job) {
  const Json fullest = job.value("fullest", Json::object());
  t.line("\n" + t.bold(strf("fullest rank: %lld", fullest.value("rank", 0LL))) +
         strf("  (pipeline %lld, data %lld, tensor %lld)", fullest.value("pipeline", 0LL),
              fullest.value("data", 0LL), fullest.value("tensor", 0LL)));
  show_memory(t, fullest);
}

// A row for each coordinate along the pipeline, with the memory of its fullest rank.
void show_stage_memory(Terminal& t, const Json& job) {
  static const char* const kColumns[] = {"parameters", "gradients", "optimizer", "activations",
                                         "transient",  "arena",     "total"};
  Table table("lrrrrrrrrrrrr");
  std::vector<std::string> head{"stage", "ranks", "fullest"};
  head.insert(head.end(), std::begin(kColumns), std::end(kColumns));
  head.insert(head.end(), {"per step", "sent", "idle"});
  table.row(head);
  for (const Json& stage : job.value("stages", Json::array())) {
    std::vector<std::string> row{number_list(stage.value("stages", Json::array())),
                                 strf("%lld", stage.value("ranks", 0LL)),
                                 strf("%lld", stage.value("rank", 0LL))};
    const Json memory = stage.value("memory", Json::object());
    for (const char* column : kColumns) row.push_back(bytes_text(memory.value(column, 0.0)));
    row.push_back(scaled(stage.value("flops_per_step", 0.0), "FLOP"));
    row.push_back(bytes_text(stage.value("sent_bytes_per_step", 0.0)));
    row.push_back(percent(stage.value("idle_share", 0.0)));
    table.row(row);
  }
  t.line("\n" + t.bold("stages") + "  (memory and FLOPs of the fullest rank of each)");
  t.raw(table.text("  "));
}

int plan_every_rank(Context& context, const Experiment& experiment) {
  const Json job = Json::parse(plait::plan_every_rank(experiment));
  Terminal& t = context.terminal;
  t.record(job);
  if (!t.human()) return kOk;
  show_head(t, job);
  const Json calls = job.value("calls_per_step", Json::object());
  const long long ranks = job.value("topology", Json::object()).value("ranks", 0LL),
                  planned = job.value("planned_ranks", 0LL);
  t.line("\n" + t.bold(strf("%lld rank%s, %lld planned: ", ranks, ranks == 1 ? "" : "s", planned)) +
         strf("collectives and messages of all ranks match and finish; %lld and %lld in a step",
              calls.value("collectives", 0LL), calls.value("messages", 0LL)));
  show_fullest(t, job);
  show_stage_memory(t, job);
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
  if (arguments.verify) ::setenv("PLAIT_VERIFY", "1", 1);
  Engine engine = context.open_engine();
  const Experiment experiment = Experiment::read(engine, file.path(), file.overrides());
  if (arguments.every_rank) return plan_every_rank(context, experiment);
  const Plan made = plan_of(experiment, arguments.rank);
  if (!arguments.ir.empty()) return show_ir(context.terminal, made, arguments.ir);
  const Json plan = Json::parse(made.describe());
  if (!arguments.picture.empty()) {
    if (!plan.contains("pipeline"))
      throw CliError(kUsage,
                     "[cli] --picture draws the schedule of a pipeline, but the experiment has no "
                     "pipeline; set "
                     "topology.pipeline to 2 or more");
    write_picture(made, arguments.picture);
  }
  Terminal& t = context.terminal;
  t.record(plan);
  if (!t.human()) return kOk;
  if (arguments.types) {
    show_types(t, plan);
    return kOk;
  }
  show_head(t, plan);
  show_parameters(t, plan);
  show_pipeline(t, plan);
  show_memory(t, plan);
  show_entry_points(t, plan);
  show_programs(t, plan);
  return kOk;
}

}  // namespace

void add_plan(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "plan", "shows parameters, memory, FLOPs and programs of FILE; touches no device");
  const auto arguments = std::make_shared<PlanArguments>();
  add_file(*verb, arguments->file);
  CLI::Option* rank = verb->add_option("--rank", arguments->rank, "the rank to plan for; default 0")
                          ->type_name("RANK");
  CLI::Option* picture = verb->add_option("--picture", arguments->picture,
                                          "writes the pipeline's schedule as an SVG picture")
                             ->type_name("FILE");
  CLI::Option* ir = verb->add_flag(
      "--ir", arguments->ir, "prints the programs as text, an op a line; --ir=NAME: one program");
  CLI::Option* types =
      verb->add_flag("--types", arguments->types,
                     "prints the element types of all operands and results, an op a line")
          ->excludes(ir);
  verb->add_flag("--every-rank", arguments->every_rank,
                 "plans all ranks: do their calls match and finish, which needs most memory")
      ->excludes(rank)
      ->excludes(picture)
      ->excludes(ir)
      ->excludes(types);
  verb->add_flag("--verify", arguments->verify, "checks each program after every rewrite");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return plan(context, *arguments); };
  });
}

}  // namespace plait::cli
