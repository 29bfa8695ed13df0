// plait adapters: the adapters of checkpoints, listed, added and removed.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <plait/adapters.hpp>
#include <plait/checkpoint.hpp>
#include <string>
#include <vector>

#include "bindings/cli/context.hpp"
#include "bindings/cli/new_folder.hpp"
#include "bindings/cli/replaced.hpp"
#include "bindings/cli/runs/run_record.hpp"
#include "bindings/cli/terminal/table.hpp"

namespace plait::cli {
namespace {

namespace fs = std::filesystem;

struct AdapterChange {
  std::string checkpoint, name, from, to, model;
};

// "lora, rank 8, alpha 16": the options that a person may have set; `match` is in the targets.
std::string method_text(const Json& adapter) {
  std::string text;
  for (const Json& entry : adapter.at("entries")) {
    text += (text.empty() ? "" : "; ") + plain(entry.at("type").get<std::string>());
    for (const auto& [key, value] : entry.at("options").items()) {
      const auto shown = value.get<std::string>();
      if (key != "match" && key != "exclude" && shown != "[]" && shown != "\"\"")
        text += ", " + plain(key) + " " + plain(shown);
    }
  }
  return text;
}

void show_adapters(Terminal& t, const Json& checkpoint) {
  t.line(t.bold(plain(checkpoint.at("path").get<std::string>())));
  if (checkpoint.at("adapters").empty()) return t.line("  no adapters");
  Table table("lrrl");
  table.row({"adapter", "parameters", "bytes", "method"});
  for (const Json& adapter : checkpoint.at("adapters"))
    table.row({plain(adapter.at("name").get<std::string>()),
               std::to_string(adapter.at("parameters").get<int64_t>()),
               bytes_text(adapter.at("bytes").get<double>()), method_text(adapter)});
  t.raw(table.text("  "));
  for (const Json& adapter : checkpoint.at("adapters")) {
    std::string targets;
    for (const Json& target : adapter.at("targets"))
      targets += (targets.empty() ? "" : ", ") + plain(target.get<std::string>());
    t.line("  " + plain(adapter.at("name").get<std::string>()) + " changes " + targets);
  }
  for (const Json& base : checkpoint.at("bases"))
    t.line("  beside " + plain(base.at("path").get<std::string>()) + ", hash " +
           base.at("hash").get<std::string>());
}

fs::path folder_of(const Json& checkpoint) {
  return fs::path(checkpoint.at("path").get<std::string>()).parent_path();
}

// Behind the checkpoints that lie in one folder with checkpoint `begin`.
size_t end_of_run(const Json& checkpoints, size_t begin) {
  size_t end = begin + 1;
  while (end < checkpoints.size() && folder_of(checkpoints[end]) == folder_of(checkpoints[begin]))
    ++end;
  return end;
}

// False: one of them has adapters.
bool tell_none(Terminal& t, const Json& checkpoints, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i)
    if (!checkpoints[i].at("adapters").empty()) return false;
  if (end == begin + 1)
    t.line(t.bold(plain(checkpoints[begin].at("path").get<std::string>())) + ": no adapters");
  else
    t.line(t.bold(plain(folder_of(checkpoints[begin]).string())) +
           strf(": no adapters in %zu checkpoints", end - begin));
  return true;
}

int list_adapters(Context& context, const std::string& place) {
  const Engine engine = context.open_engine();
  const Json listed = Json::parse(checkpoint_adapters(engine, place));
  context.terminal.record(listed);
  if (!context.terminal.human()) return kOk;
  if (listed.at("checkpoints").empty() && listed.at("left_out").empty())
    context.terminal.line("there are no checkpoints in " + place);
  const Json& all = listed.at("checkpoints");
  for (size_t i = 0, end = 0; i < all.size(); i = end) {
    end = end_of_run(all, i);
    if (!tell_none(context.terminal, all, i, end))
      for (size_t k = i; k < end; ++k) show_adapters(context.terminal, all[k]);
  }
  for (const Json& one : listed.at("left_out"))
    context.terminal.notice("[adapters] '" + plain(one.at("path").get<std::string>()) +
                            "' is left out: " + plain(one.at("fault").get<std::string>()));
  return kOk;
}

void check_place(const char* what, const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw CliError(kUsage, std::string("[adapters] ") + what + " '" + path +
                               "' does not exist; give a checkpoint or a run directory, as `plait "
                               "checkpoint ls` lists them");
}

// The name of the folder of a checkpoint of this step.
std::string step_folder(int64_t step) { return strf("step-%010lld", static_cast<long long>(step)); }

int change_adapters(Context& context, const AdapterChange& a, bool add) {
  check_place("CHECKPOINT", a.checkpoint);
  if (add) check_place("--from", a.from);
  Replaced old(context, "adapters", a.to);
  NewFolder folder("adapters", a.to);
  const Engine engine = context.open_engine();
  const Json source = Json::parse(describe_checkpoint(engine, a.checkpoint));
  const std::string from = source.at("checkpoint");  // this one, though a run may save another
  const std::string out =
      folder.hidden() + "/ckpt/" + step_folder(source.at("step").get<int64_t>());
  Json done = Json::parse(add ? add_adapter(engine, from, a.name, a.from, out, a.model)
                              : remove_adapter(engine, from, a.name, out, a.model));
  fs::copy_file(out + "/run.toml", folder.hidden() + "/run.toml");
  for (Json& file : done.at("files")) file = folder.later(file.get<std::string>());
  const std::string place = folder.later(out);
  folder.finish();
  old.done();
  done["run"] = a.to;
  done["written"] = place;
  context.terminal.record(done);
  context.terminal.line(place);
  context.terminal.line("adapter " + plain(a.name) + (add ? " added" : " left out") +
                        "; for instance: plait adapters ls " + path_word(a.to));
  return kOk;
}

void add_adapter_change(CLI::App& adapters, Context& context, bool add) {
  CLI::App* verb = adapters.add_subcommand(
      add ? "add" : "rm", add ? "writes a checkpoint again with an adapter of another one"
                              : "writes a checkpoint again without one of its adapters");
  const auto a = std::make_shared<AdapterChange>();
  verb->add_option("CHECKPOINT", a->checkpoint,
                   "a checkpoint, RUN/ckpt/best, or a run directory: its newest checkpoint")
      ->required();
  verb->add_option(
          "NAME", a->name,
          add ? "the adapter, or how the only one of OTHER is to be called" : "the adapter")
      ->required();
  if (add)
    verb->add_option("--from", a->from, "the checkpoint or run directory that has the adapter")
        ->required()
        ->type_name("OTHER");
  verb->add_option("--to", a->to,
                   "a new folder, laid out as a run directory: run.toml and ckpt/step-...")
      ->required()
      ->type_name("DIR");
  verb->add_option("--model", a->model, "the model, where an experiment has several")
      ->type_name("NAME");
  verb->callback([&context, a, add] {
    context.run_command = [&context, a, add] { return change_adapters(context, *a, add); };
  });
}

}  // namespace

void add_adapters(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "adapters",
      "lists the adapters of checkpoints, and writes a checkpoint with one more or less");
  verb->require_subcommand(1);
  CLI::App* ls = verb->add_subcommand(
      "ls", "lists adapters with method, options, targets, parameters, bytes and base");
  const auto place = std::make_shared<std::string>("runs");
  ls->add_option("PLACE", *place,
                 "a checkpoint, a run directory, or a folder of runs; default: runs")
      ->type_name("PATH");
  ls->callback([&context, place] {
    context.run_command = [&context, place] { return list_adapters(context, *place); };
  });
  add_adapter_change(*verb, context, true);
  add_adapter_change(*verb, context, false);
}

}  // namespace plait::cli
