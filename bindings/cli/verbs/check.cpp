// plait check: every problem of an experiment at once.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/ranks.hpp"

namespace plait::cli {
namespace {

std::string problem_text(const Json& p) {
  std::string text = p.value("file", "");
  if (const int line = p.value("line", 0); line > 0)
    text += strf(":%d:%d", line, p.value("column", 0));
  text += ": ";
  if (const std::string path = p.value("path", ""); !path.empty()) text += path + ": ";
  for (const char c : p.value("message", "")) text += c == '\n' ? "\n    " : std::string(1, c);
  if (const std::string hint = p.value("hint", ""); !hint.empty()) text += "; " + hint;
  return text;
}

// {file, line, column} of "experiment.toml:3:9".
Json place_of(const std::string& origin) {
  const size_t column = origin.rfind(':');
  const size_t line = column == std::string::npos ? column : origin.rfind(':', column - 1);
  if (line == std::string::npos) return {{"file", origin}, {"line", 0}, {"column", 0}};
  return {{"file", origin.substr(0, line)},
          {"line", std::atoi(origin.c_str() + line + 1)},
          {"column", std::atoi(origin.c_str() + column + 1)}};
}

Json problem_of(const Json& values, const std::string& file, const std::string& path,
                const std::string& message, const std::string& hint) {
  const std::string origin = values.value(path, Json::object()).value("origin", "default");
  Json problem = place_of(origin == "default" ? file + ":1:1" : origin);
  problem.update({{"path", path}, {"message", message}, {"hint", hint}});
  return problem;
}

// Problems that only matter to `plait run`. An unreadable experiment is reported elsewhere.
Json problems_of_run(Engine& engine, const std::string& path, const FileArguments& file) {
  Json values, problems = Json::array();
  try {
    values = Json::parse(Experiment::read(engine, path, file.overrides()).describe());
  } catch (const HostError&) {
    return problems;
  }
  const auto only = values.find("generate.only");
  const bool trains = only == values.end() || !only->value("value", false);
  if (const std::string endless = unbounded_reason(values); trains && !endless.empty()) {
    Json problem = problem_of(values, path, "run.steps", endless, "");
    problem["path"] = "run";
    problems.push_back(problem);
  }
  if (const std::string reason = no_processes_reason(engine, values); !reason.empty())
    problems.push_back(
        problem_of(values, path, "topology.backend", reason, "leave topology.backend out"));
  return problems;
}

// With the hints of the command line, and the file as the user calls it.
Json explained(const Context& context, Json problem) {
  std::string advice =
      context.hint_for(problem.value("file", "") + ": " + problem.value("message", ""));
  if (problem.value("hint", "").empty() && advice.starts_with("; ")) advice.erase(0, 2);
  problem["hint"] = problem.value("hint", "") + advice;
  problem["file"] = context.with_hints(problem.value("file", ""));
  for (const char* text : {"message", "hint"})
    problem[text] = context.with_given_name(problem.value(text, ""));
  return problem;
}

int check(Context& context, const FileArguments& file) {
  Engine engine = context.open_engine();
  const std::string path = file.path();
  Json problems = Json::array();
  for (const Json& one : problems_of_run(engine, path, file))
    problems.push_back(explained(context, one));
  for (const Json& one : Json::parse(Experiment::check(engine, path, file.overrides())))
    problems.push_back(explained(context, one));
  const std::string name = context.with_hints(path);  // of a pipe: what it was given as
  context.terminal.record({{"schema", 1}, {"file", name}, {"problems", problems}});
  for (size_t i = 0; i < problems.size(); ++i) {
    Json shown = problems[i];
    // As in the engine's list: what to do about several in a row is said behind the last of them.
    if (i + 1 < problems.size() && shown["hint"] == problems[i + 1]["hint"]) shown["hint"] = "";
    context.terminal.paragraph(problem_text(shown));
  }
  if (problems.empty()) {
    if (!context.terminal.quiet) context.terminal.paragraph(name + ": no problems");
    return kOk;
  }
  context.terminal.note(problems.size() == 1 ? "1 problem" : strf("%zu problems", problems.size()));
  return kUsage;
}

}  // namespace

void add_check(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("check", "lists every problem of FILE with its position and fix");
  const auto file = std::make_shared<FileArguments>();
  add_file(*verb, *file);
  verb->callback([&context, file] {
    context.run_command = [&context, file] { return check(context, *file); };
  });
}

}  // namespace plait::cli
