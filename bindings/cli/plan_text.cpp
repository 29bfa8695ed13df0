// What `plait plan` prints for people.
#include "bindings/cli/plan_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bindings/cli/machine.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/terminal/table.hpp"

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

// "rank 17 of 64: pipeline 1 of 2, data 0 of 4, tensor 1 of 8", the axes that have ranks.
std::string place_text(const Json& topology) {
  const long long rank = topology.value("rank", 0LL);
  std::string axes;
  long long rest = rank;  // tensor varies fastest
  for (const char* axis : {"tensor", "data", "pipeline"}) {
    const long long size = std::max(1LL, topology.value(axis, 1LL));
    if (size > 1)
      axes = strf("%s %lld of %lld", axis, rest % size, size) + (axes.empty() ? "" : ", ") + axes;
    rest /= size;
  }
  return strf("rank %lld of %lld: ", rank, topology.value("ranks", 1LL)) + axes;
}

void show_head(Terminal& t, const Json& plan) {
  const Json topology = plan.value("topology", Json::object());
  const bool alone = topology.value("ranks", 1LL) == 1;
  t.paragraph(t.bold(plan.value("name", "")) + " on " + plan.value("device", "") +
              (alone ? " (" + counted(plan.value("threads", 0LL), "thread") + ")" : "") + ": " +
              counted(plan.value("steps", 0LL), "step") + " of " +
              counted(plan.value("global_batch", 0LL), "sample") +
              strf(", in micro-batches of %lld", plan.value("micro_batch", 0LL)));
  if (!alone && topology.contains("rank")) t.paragraph(place_text(topology));
}

std::string count_text(const Json& of, const char* key) { return strf("%lld", of.value(key, 0LL)); }

std::string parameters_text(const Terminal& t, const Json& plan) {
  return t.bold(strf("%lld parameters, %lld of them trained", plan.value("parameter_count", 0LL),
                     plan.value("trained_count", 0LL))) +
         "; this rank writes " + bytes_text(plan.value("checkpoint_bytes", 0.0)) +
         " to a checkpoint";
}

// Neighbours that differ in their names alone share a row, as the copies of a block do.
void show_layers(Terminal& t, const Json& plan, bool all) {
  constexpr size_t kMostRows = 24, kShown = 18;
  struct Row {
    std::string first, last;
    size_t layers;
    std::vector<std::string> cells;
  };
  std::vector<Row> rows;
  for (const Json& layer : plan.value("layers", Json::array())) {
    const std::string name = layer.value("name", "");
    const Json output = layer.value("output", Json::object());
    std::vector<std::string> cells = {
        layer.value("type", ""),
        output.value("dtype", "") + " " + shape_text(output.value("shape", Json::array())),
        count_text(layer, "parameter_count"), scaled(layer.value("flops", 0.0), "")};
    if (!rows.empty() && rows.back().cells == cells) {
      rows.back().last = name;
      ++rows.back().layers;
    } else {
      rows.push_back({name, name, 1, std::move(cells)});
    }
  }
  Table table("lllrr");
  table.row({"layer", "type", "output of a micro-batch", "parameters", "FLOPs"});
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!all && rows.size() > kMostRows && i == kShown / 2) {
      i = rows.size() - kShown / 2;
      table.row({strf("... %zu more rows: -v shows all", rows.size() - kShown), "", "", "", ""});
    }
    const Row& row = rows[i];
    std::vector<std::string> cells = row.cells;
    cells[2] = row.layers > 1 ? strf("%zu x ", row.layers) + cells[2] : cells[2];
    cells.insert(cells.begin(), row.layers > 1 ? row.first + " .. " + row.last : row.first);
    table.row(std::move(cells));
  }
  t.paragraph("");
  t.raw(table.fitted("  ", t.columns(), t.utf8()));
  t.paragraph("  " + parameters_text(t, plan));
}

// Of each adapter, beside the model.
void show_adapters(Terminal& t, const Json& plan) {
  const Json adapters = plan.value("adapters", Json::array());
  if (adapters.empty()) return;
  Table table("lrrr");
  table.row({"adapter", "parameters", "trained", "bytes"});
  for (const Json& a : adapters)
    table.row({a.value("model", "") + "." + a.value("name", ""),
               std::to_string(a.value("parameter_count", 0LL)),
               std::to_string(a.value("trained_count", 0LL)), bytes_text(a.value("bytes", 0.0))});
  t.paragraph("");
  t.raw(table.fitted("  ", t.columns(), t.utf8()));
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

// "on the device 17.2 KiB: parameters 832 B, ...; on the host 10.5 KiB: dataset 10.5 KiB".
std::string memory_text(const Json& memory) {
  std::string device, host;
  double on_host = 0;
  bool in_arena = true;  // in the order of the record
  for (const auto& [name, value] : memory.items()) {
    const double bytes = value.get<double>();
    if (name == "arena") in_arena = false;
    if (bytes == 0 || name == "arena" || name == "total") continue;
    std::string& to = in_arena ? device : host;
    to += (to.empty() ? "" : ", ") + name + " " + bytes_text(bytes);
    if (!in_arena) on_host += bytes;
  }
  return "on the device " + bytes_text(memory.value("arena", 0.0)) + ": " + device +
         (host.empty() ? "" : "; on the host " + bytes_text(on_host) + ": " + host);
}

// "memory of this rank: 2.1 MiB; this machine has 23.5 GiB".
std::string total_memory_text(const Terminal& t, const Json& plan) {
  const double total = plan.value("memory", Json::object()).value("total", 0.0);
  const auto here = static_cast<double>(machine().memory);
  const auto ranks = plan.value("topology", Json::object()).value("ranks", int64_t{1});
  std::string text = t.bold("memory of this rank: " + bytes_text(total));
  if (const std::string more = memory_of_ranks(plan, 1); !more.empty())
    text += t.bold(", more than the " + bytes_text(here) + " of this machine");
  else if (const std::string together = memory_of_ranks(plan, ranks); !together.empty())
    text += t.bold("; on one machine " + together);
  else if (here > 0)
    text += "; this machine has " + bytes_text(here);
  return text;
}

// all: a row for each kind, also of 0 bytes, with the bytes as numbers.
void show_memory(Terminal& t, const Json& plan, bool all) {
  Table table("lrr");
  const Json memory = plan.value("memory", Json::object());
  for (const auto& [name, bytes] : memory.items())
    table.row({name, bytes_text(bytes.get<double>()), bytes.dump()});
  t.paragraph("\n" + total_memory_text(t, plan) +
              (all ? "  (arena: on the device; total: with that of the host)" : ""));
  for (const std::string& line : shared_memory_lines(plan)) t.paragraph("  " + line);
  if (all)
    t.raw(table.fitted("  ", t.columns(), t.utf8()));
  else
    t.paragraph("  " + memory_text(memory));
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
  t.paragraph("\n" +
              t.bold(strf("pipeline: %s, %lld micro-batch%s per step on %lld ranks; ",
                          p.value("schedule", "").c_str(), micros, micros == 1 ? "" : "es",
                          p.value("ranks", 0LL)) +
                     idle) +
              "  (by FLOPs; messages are free)");
  const bool split = p.value("split_backward", false);
  Table table(split ? "rrrrrrl" : "rrrrrl");
  std::vector<std::string> head{"stage", "pipeline rank", "idle", "forward", "backward"};
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
  t.raw(table.fitted("  ", t.columns(), t.utf8()));
  const long long held = p.value("in_flight_micro_batches", 0LL);
  t.paragraph(strf(
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

// "zero_grad, forward_backward for micro-batches 0-2, forward_backward_reduce for micro-batch 3,
// then update": the launches of a step in order; of a pipeline the first, or with `all_shown` a
// screen.
std::string launches_text(const Json& launches, bool all_shown) {
  const size_t most_runs = all_shown ? 32 : 8;
  std::string all;
  size_t runs = 0;
  for (size_t i = 0; i < launches.size();) {
    const Json& first = launches[i];
    size_t end = i + 1;
    while (end < launches.size() && launches[end].at("program") == first.at("program")) ++end;
    if (runs++ == most_runs) return all + strf(", %zu more (--json has all)", launches.size() - i);
    all += (all.empty()              ? ""
            : end == launches.size() ? ", then "
                                     : ", ") +
           first.value("program", "");
    if (first.contains("micro_batch")) {
      const long long from = first.value("micro_batch", 0LL),
                      to = launches[end - 1].value("micro_batch", 0LL);
      all += from == to ? strf(" for micro-batch %lld", from)
                        : strf(" for micro-batches %lld-%lld", from, to);
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
  t.paragraph("\n" + t.bold("entry points") + "  (samples: of a micro-batch of this rank)");
  t.raw(table.fitted("  ", t.columns(), t.utf8()));
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
  t.paragraph("  of the model (products, without recompute): " + text("") +
              (masks ? "; attention without its mask: " + text("_full") : ""));
}

// Whether a step is more than the programs of its entry point, each once.
bool has_turns(const Json& launches) {
  return std::any_of(launches.begin(), launches.end(),
                     [](const Json& one) { return one.value("micro_batch", 0LL) > 0; });
}

void show_programs(Terminal& t, const Json& plan, bool kernels) {
  const double sent = plan.value("sent_bytes_per_step", 0.0);
  t.paragraph((kernels ? "\n" : "") +
              t.bold("programs: " + scaled(plan.value("flops_per_step", 0.0), "FLOP") +
                     " per step" +
                     (sent > 0 ? ", " + bytes_text(sent) + " sent to other ranks" : "")));
  show_model_flops(t, plan);
  const Json launches = plan.value("launches", Json::object()).value("step", Json::array());
  if (kernels || has_turns(launches))
    t.paragraph("  each step runs: " + launches_text(launches, kernels));
  if (!kernels) return;
  for (const Json& program : plan.value("programs", Json::array())) {
    t.paragraph("  " + t.bold(program.value("name", "")) + ": " +
                scaled(program.value("flops", 0.0), "FLOP") + ", " +
                bytes_text(program.value("transient_bytes", 0.0)) + " of transient values");
    Table table("llrll");
    for (const Json& k : program.value("kernels", Json::array()))
      table.row(k.contains("collective") ? collective_row(k) : kernel_row(k));
    t.raw(table.text("    "));
  }
}

std::string number_list(const Json& numbers) {
  std::string all;
  for (const Json& n : numbers) all += (all.empty() ? "" : ", ") + n.dump();
  return all;
}

// A rank with its place in the grid, and its memory as a table.
void show_fullest(Terminal& t, const Json& job) {
  const Json fullest = job.value("fullest", Json::object());
  t.paragraph("\n" + t.bold(strf("fullest rank: %lld", fullest.value("rank", 0LL))) +
              strf("  (pipeline %lld, data %lld, tensor %lld)", fullest.value("pipeline", 0LL),
                   fullest.value("data", 0LL), fullest.value("tensor", 0LL)));
  show_memory(t, fullest, true);
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
  t.paragraph("\n" + t.bold("stages") + "  (memory and FLOPs of the fullest rank of each)");
  t.raw(table.fitted("  ", t.columns(), t.utf8()));
}

}  // namespace

namespace {

double host_memory(const Json& plan) {
  const Json memory = plan.value("memory", Json::object());
  const bool own = plan.value("device_has_own_memory", false);
  return memory.value("total", 0.0) - (own ? memory.value("arena", 0.0) : 0);
}

}  // namespace

std::string memory_of_ranks(const Json& plan, int64_t ranks) {
  const double all = host_memory(plan) * static_cast<double>(ranks);
  const auto has = static_cast<double>(machine().memory);
  if (has == 0 || all <= has) return "";
  const bool about = plan.value("topology", Json::object()).value("pipeline", 1LL) > 1;
  return (ranks == 1 ? "a rank needs " : strf("%lld ranks need ", static_cast<long long>(ranks))) +
         (about && ranks > 1 ? "about " : "") + bytes_text(all) + ", and this machine has " +
         bytes_text(has);
}

std::vector<std::string> shared_memory_lines(const Json& plan) {
  const bool about = plan.value("topology", Json::object()).value("pipeline", 1LL) > 1;
  std::vector<std::string> lines;
  for (const Json& s : plan.value("shared_memory", Json::array())) {
    const double bytes = s.value("bytes", 0.0);
    std::string line = std::string("shared memory of ") + (about ? "about " : "") +
                       bytes_text(bytes) +
                       strf(" with all %lld ranks on one machine (", s.value("ranks", 0LL)) +
                       s.value("backend", "") + ")";
    if (const auto free = s.find("available"); free != s.end()) {
      const double available = free->get<double>();
      line += (bytes > available ? ", more than the " : "; of this one ") + bytes_text(available) +
              (bytes > available ? " that are free here" : " are free");
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

void show_plan(Terminal& t, const Json& plan, PlanDetail detail) {
  if (detail == PlanDetail::kFigures) {
    t.paragraph(parameters_text(t, plan));
    t.paragraph(total_memory_text(t, plan));
    for (const std::string& line : shared_memory_lines(plan)) t.paragraph("  " + line);
    t.paragraph("  " + memory_text(plan.value("memory", Json::object())));
    return;
  }
  const bool all = detail == PlanDetail::kAll;
  show_head(t, plan);
  show_layers(t, plan, all);
  show_adapters(t, plan);
  if (all) show_parameters(t, plan);
  show_pipeline(t, plan);
  show_memory(t, plan, all);
  show_entry_points(t, plan);
  show_programs(t, plan, all);
  if (!all) t.paragraph("-v shows parameters and the kernels of the programs, --ir their ops.");
}

// The element type and the dims of each operand and result, op by op.
void show_types(Terminal& t, const Json& plan) {
  for (const Json& program : plan.value("programs", Json::array())) {
    t.line("\n" + t.bold(program.value("name", "")));
    Table table("lll");
    for (const Json& k : program.value("kernels", Json::array()))
      table.row({k.value("op", ""), k.value("scope", ""),
                 list_text(k.value("inputs", Json::array())) + " -> " +
                     list_text(k.value("outputs", Json::array())) +
                     (k.value("tf32", false) ? ", operands rounded to tf32" : "")});
    t.raw(table.text("  "));
  }
}

void show_every_rank(Terminal& t, const Json& job) {
  show_head(t, job);
  const Json calls = job.value("calls_per_step", Json::object());
  const long long ranks = job.value("topology", Json::object()).value("ranks", 0LL),
                  planned = job.value("planned_ranks", 0LL);
  t.paragraph(
      "\n" + t.bold(strf("%lld rank%s, %lld planned: ", ranks, ranks == 1 ? "" : "s", planned)) +
      strf("collectives and messages of all ranks match and finish; %lld and %lld in a step",
           calls.value("collectives", 0LL), calls.value("messages", 0LL)));
  show_fullest(t, job);
  show_stage_memory(t, job);
}

}  // namespace plait::cli
