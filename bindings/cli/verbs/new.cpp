// plait new: makes a folder with a starter experiment.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/templates.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

struct NewArguments {
  std::string name, from = "tiny";
  bool list = false;
};

const Template& find_template(const std::string& name) {
  std::vector<std::string> names;
  std::string all;
  for (const Template& one : templates()) {
    if (name == one.name) return one;
    names.emplace_back(one.name);
    all += std::string(all.empty() ? "" : ", ") + one.name;
  }
  const std::string near = nearest(name, names);
  throw CliError(kUsage, "[cli] there is no template '" + name + "'" +
                             (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                             "; there are: " + all);
}

// The name becomes run.name, which allows the same characters.
std::string run_name(const fs::path& folder) {
  std::string name = folder.filename();
  const auto safe = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; };
  if (name.empty() || name.size() > 128 || !std::all_of(name.begin(), name.end(), safe))
    throw CliError(kUsage,
                   "[cli] '" + name +
                       "' can't name an experiment; use up to 128 letters, digits, '-' and '_'");
  return name;
}

void write_file(const fs::path& path, const std::string& text, bool replace) {
  std::error_code ignored;
  if (fs::exists(path, ignored) && !replace)
    throw CliError(kUsage, "[cli] '" + path.string() +
                               "' already exists; choose another name, or replace it with --yes");
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file)
    throw CliError(kEnvironment,
                   "[cli] cannot write '" + path.string() + "': " + std::strerror(errno));
}

std::string filled(std::string text, const std::string& name) {
  constexpr std::string_view kMark = "@NAME@";
  for (size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark))
    text.replace(at, kMark.size(), name);
  return text;
}

int list(Context& context) {
  for (const Template& one : templates()) {
    context.terminal.line(strf("%-12s %s", one.name, one.help));
    context.terminal.record({{"name", one.name}, {"help", one.help}});
  }
  return kOk;
}

int make(Context& context, const NewArguments& arguments) {
  if (arguments.list) return list(context);
  if (arguments.name.empty())
    throw CliError(kUsage,
                   "[cli] plait new needs the NAME of the folder to make; plait new --list lists "
                   "the templates");
  const Template& from = find_template(arguments.from);
  fs::path folder = fs::path(arguments.name).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  const std::string name = run_name(folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw CliError(kEnvironment,
                   "[cli] cannot make the folder '" + folder.string() + "': " + error.message());
  const fs::path file = folder / "experiment.toml";
  write_file(file, filled(from.toml, name), context.yes);
  context.terminal.record({{"schema", 1}, {"file", file.string()}, {"from", from.name}});
  context.terminal.line("made " + file.string());
  std::string run = "plait run " + shell_quoted(folder.string());
  if (*from.data) {
    // Where `plait data get` puts it: $PLAIT_DATA is known to the run as well.
    const std::string given = context.data.empty() ? "" : " --data " + shell_quoted(context.data);
    context.terminal.line(std::string("download the data first: plait data get ") + from.data +
                          given);
    run += given.empty() && context.data_folder().empty() ? " --data data" : given;
  }
  context.terminal.line("train it: " + run);
  return kOk;
}

}  // namespace

void add_new(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("new", "makes the folder NAME with a starter experiment");
  const auto arguments = std::make_shared<NewArguments>();
  verb->add_option("NAME", arguments->name, "folder to make; its last component names the run");
  verb->add_option("--from", arguments->from, "template")
      ->type_name("TEMPLATE")
      ->capture_default_str();
  verb->add_flag("--list", arguments->list, "list the templates");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return make(context, *arguments); };
  });
}

}  // namespace plait::cli
