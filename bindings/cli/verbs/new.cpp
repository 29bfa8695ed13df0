// plait new: makes a folder with a starter experiment, from a template or from answers.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/help/declarations.hpp"
#include "bindings/cli/help/usage.hpp"
#include "bindings/cli/item_toml.hpp"
#include "bindings/cli/made_folder.hpp"
#include "bindings/cli/new/interview.hpp"
#include "bindings/cli/new/starter.hpp"
#include "bindings/cli/new/templates.hpp"
#include "bindings/cli/terminal/table.hpp"
#include "bindings/cli/whole_file.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

struct NewArguments {
  std::string name, from;
  bool list = false;
};

const Template& find_template(const std::string& name) {
  std::vector<std::string> names;
  for (const Template& one : templates()) {
    if (name == one.name) return one;
    names.push_back(one.name);
  }
  const std::string near = nearest(name, names);
  throw CliError(kUsage, "[cli] there is no template '" + name + "'" +
                             (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                             "; there are: " + joined(names, ", "));
}

// The name becomes run.name, which allows the same characters.
std::string run_name(const fs::path& folder) {
  std::string name = folder.filename();
  const auto safe = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; };
  if (name.empty() || name.size() > 128 || name.front() == '-' ||
      !std::all_of(name.begin(), name.end(), safe))
    throw CliError(
        kUsage, "[cli] '" + name +
                    "' can't name an experiment; use up to 128 letters, digits, '-' and '_', and "
                    "don't start with '-'");
  return name;
}

[[noreturn]] void refuse_to_replace(const fs::path& path) {
  throw CliError(kUsage, "[cli] '" + path.string() +
                             "' already exists; choose another name, or replace it with --yes");
}

int list(Context& context) {
  Table table("ll");
  for (const Template& one : templates()) {
    table.row({one.name, one.help});
    context.terminal.record({{"name", one.name}, {"help", one.help}});
  }
  if (context.terminal.human()) context.terminal.raw(table.text());
  return kOk;
}

// A command of a README, whose files in data/ are those in the data folder of this command line:
// --data, or PLAIT_DATA. Before the command names the new folder, which may lie in data/ itself.
std::string with_data_paths(const Context& context, std::string command) {
  if (context.data_folder().empty()) return command;
  const std::string folder = context.data_folder() + "/";
  for (size_t in = 0; (in = command.find("data/", in)) != std::string::npos;) {
    const size_t begin = command.rfind(' ', in) + 1,
                 end = std::min(command.find(' ', in), command.size());
    const bool is_path = in == begin || command[in - 1] == '=';
    const std::string word = command.substr(begin, end - begin);
    const std::string made =
        is_path ? shell_quoted(std::string(word).replace(in - begin, 5, folder)) : word;
    command.replace(begin, end - begin, made);
    in = begin + made.size();
  }
  return command;
}

// A command with the --data of this command line; the verbs read PLAIT_DATA themselves.
std::string with_data_option(const Context& context, std::string command) {
  if (context.data_folder().empty()) return command;
  const std::string option = context.data.empty() ? "" : " --data " + shell_quoted(context.data);
  const size_t at = command.find(" --data data");
  if (at != std::string::npos)
    command.replace(at, std::string(" --data data").size(), option);
  else if (command.starts_with("plait data get "))
    command += option;
  return command;
}

// Writes the files and tells the commands that come next.
int write_all(Context& context, const fs::path& folder, const Template& made) {
  make_folders(folder, "cli", "as plait new NAME");
  std::error_code ignored;
  for (const auto& [name, text] : made.files)
    if (fs::exists(folder / name, ignored) && !context.yes) refuse_to_replace(folder / name);
  Json files = Json::array();
  for (const auto& [name, text] : made.files) {
    write_whole_file((folder / name).string(), text);
    files.push_back((folder / name).string());
    context.terminal.line("made " + (folder / name).string());
  }
  Json next = Json::array();
  for (const std::string& command : made.commands)
    next.push_back(with_data_option(context, command));
  context.terminal.record(
      {{"file", files.front()}, {"files", files}, {"from", made.name}, {"next", next}});
  if (next.empty())
    context.terminal.line("README.md in it says what it needs");
  else
    context.terminal.line(next.size() > 1 ? "then:" : "train it: " + next[0].get<std::string>());
  if (next.size() > 1)
    for (const Json& command : next) context.terminal.line("  " + command.get<std::string>());
  return kOk;
}

Template from_template(const Context& context, const std::string& template_name,
                       const fs::path& folder, const std::string& name) {
  Template from = find_template(template_name);
  for (std::string& command : from.commands) command = with_data_paths(context, command);
  return filled(from, folder.string(), name);
}

fs::path folder_of_run(const std::string& given) {
  fs::path folder = fs::path(given).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return folder;
}

// A model of Hugging Face, imported into the folder, with conversations to learn from.
Template imported(Context& context, const Answers& a, const std::string& model,
                  const fs::path& folder, const std::string& name) {
  const Engine engine = context.open_engine();
  engine.import_model(item_toml("hf", {}), model, folder.string());
  std::ifstream file(folder / "experiment.toml");
  const std::string toml{std::istreambuf_iterator<char>(file), {}};
  context.yes = true;  // the import has just made this file
  return {"answers",
          "",
          {{"experiment.toml", with_conversations(toml, seen_from(folder, a.data), name, a.ranks)}},
          {"plait run " + path_word(folder.string())}};
}

int make_from_answers(Context& context, const std::string& given) {
  bool text_classes = false;
  {
    const Engine engine = context.open_engine();
    const Declarations all(engine);
    for (const Json& csv : all.items("plait.dataset/1"))
      for (const Json& option : csv.at("options"))
        for (const Json& choice : option.value("choices", Json::array()))
          text_classes |= csv.at("name") == "csv" && choice == "class";
  }
  Interview interview(std::cin, std::cout, text_classes);
  const fs::path folder = folder_of_run(given.empty() ? interview.name("demo") : given);
  const std::string name = run_name(folder);
  std::error_code ignored;
  if (fs::exists(folder / "experiment.toml", ignored) && !context.yes)
    refuse_to_replace(folder / "experiment.toml");
  const Answers a = interview.answers();
  if (a.task == Task::kTry)
    return write_all(context, folder, from_template(context, "tiny", folder, name));
  if (a.task == Task::kFineTune)
    return write_all(context, folder, imported(context, a, interview.model(), folder, name));
  return write_all(context, folder, starter(a, folder, name));
}

int make(Context& context, const NewArguments& arguments) {
  if (arguments.list) return list(context);
  const bool asks = arguments.from.empty() && context.terminal.human() && !context.yes &&
                    isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  if (asks) return make_from_answers(context, arguments.name);
  if (arguments.name.empty())
    throw CliError(kUsage,
                   "[cli] plait new needs the NAME of the folder to make; plait new --list lists "
                   "the templates");
  const std::string from = arguments.from.empty() ? "tiny" : arguments.from;
  find_template(from);  // before the name is looked at
  const fs::path folder = folder_of_run(arguments.name);
  return write_all(context, folder, from_template(context, from, folder, run_name(folder)));
}

}  // namespace

void add_new(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("new",
                         "makes the folder NAME with a starter experiment; on a terminal, "
                         "without --from, it asks what is to be learned");
  const auto arguments = std::make_shared<NewArguments>();
  verb->add_option("NAME", arguments->name, "folder to make; its last component names the run");
  verb->add_option("--from", arguments->from, "template; without a terminal: tiny")
      ->type_name("TEMPLATE");
  verb->add_flag("--list", arguments->list, "lists the templates");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return make(context, *arguments); };
  });
}

}  // namespace plait::cli
