// plait merge: a checkpoint of the model alone, with its adapters merged into it.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <plait/adapters.hpp>
#include <plait/checkpoint.hpp>
#include <string>
#include <vector>

#include "bindings/cli/context.hpp"
#include "bindings/cli/data/stop_request.hpp"
#include "bindings/cli/launch/on_ranks.hpp"
#include "bindings/cli/new_folder.hpp"
#include "bindings/cli/replaced.hpp"
#include "bindings/cli/runs/run_record.hpp"

namespace plait::cli {
namespace {

namespace fs = std::filesystem;

struct MergeArguments {
  FileArguments file;
  std::string from, to, adapter, model;
};

std::string source_of(const MergeArguments& arguments) {
  std::error_code ignored;
  const std::string& given = arguments.from;
  if (given.empty()) {
    if (fs::is_directory(arguments.file.given + "/ckpt", ignored)) return arguments.file.given;
    throw CliError(kUsage,
                   "[merge] plait merge needs --from DIR: a checkpoint, RUN/ckpt/best, or a run "
                   "directory; or a run directory as FILE");
  }
  if (!fs::exists(given, ignored))
    throw CliError(kUsage, "[merge] --from '" + given +
                               "' does not exist; give a checkpoint or a run directory, as `plait "
                               "checkpoint ls` lists them");
  return given;
}

// The one folder step-... in `folder`.
std::string saved_in(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && entry.path().filename().string().starts_with("step-"))
      return entry.path().string();
  throw CliError(kFailed, "[merge] nothing was saved in '" + folder + "'");
}

// A command that works with the merged model. values: of its experiment, by key.
std::string example_of(const Json& values, const std::string& to) {
  const auto has = [&](const std::string& key) { return values.contains(key + ".type"); };
  if (has("data.eval")) return "plait eval " + path_word(to);
  if (has("tokenizer")) return "plait generate " + path_word(to) + " --prompt TEXT";
  return "plait export " + path_word(to) + " model.safetensors";
}

void stop_if(const StopRequest& stop) {
  if (stop.asked()) throw CliError(kInterrupted, "[merge] stopped on request; nothing was written");
}

int merge_into(Context& context, const std::string& from, const MergeArguments& arguments,
               const Plan& plan, const Json& values) {
  const StopRequest stop;
  const std::string &to = arguments.to, &adapter = arguments.adapter;
  Replaced old(context, "merge", to);
  NewFolder folder("merge", to);
  SessionSettings settings;
  settings.no_files = true;
  settings.resume = PLAIT_RESUME_NEVER;
  Session session = context.open_session(plan, settings);
  session.load_parameters(from);
  stop_if(stop);
  if (adapter.empty())
    merge(session, PLAIT_MERGE_FINAL);
  else
    merge_adapter(session, adapter, PLAIT_MERGE_FINAL, arguments.model);
  stop_if(stop);
  save_model(session, folder.hidden() + "/ckpt");
  stop_if(stop);
  const std::string saved = saved_in(folder.hidden() + "/ckpt");
  fs::copy_file(saved + "/run.toml", folder.hidden() + "/run.toml");
  const std::string place = folder.later(saved);
  folder.finish();
  old.done();
  const Json described = Json::parse(session.describe());
  const auto step = described.at("step").get<int64_t>();
  context.terminal.record(Json{{"schema", 1}, {"run", to}, {"checkpoint", place}, {"step", step}});
  context.terminal.line(place);
  const std::string merged = adapter.empty() ? "its adapters" : "adapter " + plain(adapter);
  context.terminal.line(strf("the model of step %lld, %s merged; for instance: ",
                             static_cast<long long>(step), merged.c_str()) +
                        example_of(values, to));
  return kOk;
}

// The fields of the data as the checkpoint tells them: no data are opened, which may be elsewhere.
// values: of the experiment. A checkpoint of an older engine tells none.
std::vector<std::string> without_data(Context& context, const std::string& from,
                                      const Json& values) {
  const Engine engine = context.open_engine();
  const Json settings = Json::parse(describe_checkpoint(engine, from)).at("settings");
  std::vector<std::string> overrides;
  for (const auto& [key, fields] : settings.items()) {
    constexpr std::string_view kBegin = "fields of [data.";
    if (!key.starts_with(kBegin)) continue;
    const std::string table = "data." + key.substr(kBegin.size(), key.size() - kBegin.size() - 1);
    if (!values.contains(table + ".type")) continue;
    overrides.push_back(table + ".fields=" + fields.get<std::string>());
    // Without samples epochs have no length, which schedules need.
    if (const auto steps = settings.find("steps that the schedule assumes");
        table == "data.train" && steps != settings.end() &&
        values.at("run.epochs").at("value") != 0)
      overrides.push_back("run.steps=" + steps->get<std::string>());
  }
  return overrides;
}

int run_merge(Context& context, const MergeArguments& arguments) {
  const std::string from = source_of(arguments);
  const Replaced unused(context, "merge", arguments.to, Replaced::kLook);
  RankedCommand command;
  Json values;
  command.inspect = [&](const Experiment& of) { values = Json::parse(of.describe()); };
  command.overrides = [&](const Json& all) { return without_data(context, from, all); };
  command.saves = false;
  command.work = [&](const Plan& plan, const RankInfo&) {
    return merge_into(context, from, arguments, plan, values);
  };
  return in_one_process(context, arguments.file, command);
}

}  // namespace

void add_merge(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "merge",
      "writes a checkpoint of the model of FILE alone, [[model.adapters]] merged into it; in "
      "one process, whatever [topology] asks for; its data need not be there");
  const auto arguments = std::make_shared<MergeArguments>();
  add_file(*verb, arguments->file);
  verb->add_option("--from", arguments->from,
                   "a checkpoint, RUN/ckpt/best, or a run directory: its newest checkpoint; "
                   "default: FILE, if that is a run directory")
      ->type_name("DIR");
  verb->add_option("--to", arguments->to,
                   "a new folder, laid out as a run directory: run.toml, the experiment without "
                   "adapters, and ckpt/step-...")
      ->required()
      ->type_name("DIR");
  CLI::Option* adapter =
      verb->add_option("--adapter", arguments->adapter,
                       "merges this adapter and leaves out the others; default: merges all; with "
                       "model.adapter_field one must be named")
          ->type_name("NAME");
  verb->add_option("--model", arguments->model, "the model, where several have adapters")
      ->type_name("NAME")
      ->needs(adapter);
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return run_merge(context, *arguments); };
  });
}

}  // namespace plait::cli
