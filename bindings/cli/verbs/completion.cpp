// plait completion bash: a completion script generated from the verbs and options.
#include <CLI/CLI.hpp>
#include <memory>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {

std::string options_of(const CLI::App& app) {
  std::string all;
  for (const CLI::App* inner : app.get_subcommands([](const CLI::App*) { return true; }))
    all += (all.empty() ? "" : " ") + inner->get_name() + " " + options_of(*inner);
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) all += (all.empty() ? "--" : " --") + name;
  return all;
}

std::string bash_script(const CLI::App& app) {
  std::string verbs, cases;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    verbs += (verbs.empty() ? "" : " ") + verb->get_name();
    cases += "    " + verb->get_name() + ") options=\"" + options_of(*verb) + "\" ;;\n";
  }
  return "# bash completion of plait; load it with: source <(plait completion bash)\n"
         "_plait() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} options=\n"
         "  if ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W \"" +
         verbs +
         " --help --version\" -- \"$word\")); return; fi\n"
         "  case $verb in\n" +
         cases +
         "  esac\n"
         "  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"$options " +
         options_of(app) +
         "\" -- \"$word\"))\n"
         "  else COMPREPLY=($(compgen -f -- \"$word\")); fi\n"
         "}\n"
         "complete -o filenames -F _plait plait\n";
}

}  // namespace

void add_completion(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("completion", "prints a completion script for a shell");
  const auto shell = std::make_shared<std::string>("bash");
  verb->add_option("SHELL", *shell, "bash")->check(CLI::IsMember({"bash"}))->capture_default_str();
  verb->callback([&app, &context, shell] {
    context.run_command = [&app, &context] {
      context.terminal.raw(bash_script(app));
      return static_cast<int>(kOk);
    };
  });
}

}  // namespace plait::cli
