// plait check: every problem of an experiment at once.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {

std::string problem_text(const Json& p) {
  std::string text = p.value("file", "");
  if (const int line = p.value("line", 0); line > 0)
    text += strf(":%d:%d", line, p.value("column", 0));
  text += ": ";
  if (const std::string path = p.value("path", ""); !path.empty()) text += path + ": ";
  text += p.value("message", "");
  if (const std::string hint = p.value("hint", ""); !hint.empty()) text += "; " + hint;
  return text;
}

int check(Context& context, const FileArguments& file) {
  Engine engine = context.open_engine();
  const std::string path = file.path();
  const Json problems = Json::parse(Experiment::check(engine, path, file.overrides()));
  context.terminal.record({{"schema", 1}, {"file", path}, {"problems", problems}});
  for (const Json& problem : problems) context.terminal.line(problem_text(problem));
  if (problems.empty()) {
    if (!context.terminal.quiet) context.terminal.line(path + ": fine");
    return kOk;
  }
  context.terminal.note(problems.size() == 1 ? "1 problem" : strf("%zu problems", problems.size()));
  return kUsage;
}

}  // namespace

void add_check(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("check", "lists every problem of FILE with its place and what to do");
  const auto file = std::make_shared<FileArguments>();
  add_file(*verb, *file);
  verb->callback(
      [&context, file] { context.chosen = [&context, file] { return check(context, *file); }; });
}

}  // namespace plait::cli
