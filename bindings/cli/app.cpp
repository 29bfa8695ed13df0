#include "bindings/cli/app.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "bindings/cli/context.hpp"
#include "bindings/cli/help/completion.hpp"
#include "bindings/cli/help/help_examples.hpp"
#include "bindings/cli/help/help_format.hpp"
#include "bindings/cli/help/usage.hpp"
#include "bindings/cli/launch/report.hpp"
#include "bindings/cli/terminal/cells.hpp"

namespace plait::cli {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done, 1 failed, 2 command line or experiment file, 3 something is missing on "
    "this machine,\n"
    "4 interrupted and saved, 5 stopped because values were not finite.\n"
    "First steps: plait new demo --from tiny && plait run demo";

void add_common(CLI::App& app, Context& context) {
  app.add_flag("--json", context.terminal.json, "print results as JSON, one value per line");
  app.add_option("--data", context.data, "folder in which relative data paths are looked up first")
      ->type_name("DIR");
  app.add_option("--plugins", context.plugins,
                 "plugin file or folder of plugins, searched first; may be repeated")
      ->type_name("PATH")
      ->allow_extra_args(false);
  app.add_flag("-q,--quiet", context.terminal.quiet, "print only results, warnings and errors");
  app.add_flag("-v,--verbose", context.terminal.verbose, "print more");
  app.add_flag("-y,--yes", context.yes, "replace existing files without asking");
}

void set_up_verb(CLI::App& verb, const std::string& path) {
  verb.fallthrough();
  verb.footer(
      help_examples(path) + (help_examples(path).empty() ? "" : "\n") +
      "Every verb also takes --json, --data, --plugins, --quiet, --verbose and --yes: see plait "
      "--help.");
}

void set_up(CLI::App& app, Context& context) {
  app.fallthrough();
  app.formatter(help_format(context.terminal.columns(), context.terminal.utf8()));  // verbs inherit
  app.require_subcommand(0, 1);  // without a verb, run_app prints the help
  app.footer(kFooter);
  app.set_version_flag("-V,--version", std::string("plait ") + plait_version() + " (ABI " +
                                           std::to_string(plait_abi_version()) + ")");
  add_common(app, context);
  add_run(app, context);
  add_check(app, context);
  add_plan(app, context);
  add_profile(app, context);
  add_sweep(app, context);
  add_submit(app, context);
  add_runs(app, context);
  add_status(app, context);
  add_compare(app, context);
  add_plot(app, context);
  add_board(app, context);
  add_bind(app, context);
  add_new(app, context);
  add_eval(app, context);
  add_predict(app, context);
  add_generate(app, context);
  add_import(app, context);
  add_export(app, context);
  add_merge(app, context);
  add_adapters(app, context);
  add_checkpoint(app, context);
  add_plugins(app, context);
  add_keys(app, context);
  add_ops(app, context);
  add_data(app, context);
  add_devices(app, context);
  add_env(app, context);
  add_completion(app, context);
  for (CLI::App* verb : app.get_subcommands({})) {
    set_up_verb(*verb, verb->get_name());
    for (CLI::App* inner : verb->get_subcommands({}))
      set_up_verb(*inner, verb->get_name() + " " + inner->get_name());
  }
}

// Every rank that a launcher starts finds the problems of the same file: one of a machine lists
// them, the others, whose file may still be another one, print the first.
std::string as_printed(const Context& context, const std::string& text) {
  const size_t head = text.find('\n');
  if (!context.listed_elsewhere || !is_problem_list(text) || head == text.npos) return text;
  const size_t begin = std::min(text.find_first_not_of(' ', head + 1), text.size());
  const std::string first = text.substr(begin, text.find('\n', begin) - begin);
  constexpr int kMost = 160;  // columns
  return text.substr(0, head - 1) + ", the first: " + cell(first, kMost, true);
}

int fail(Context& context, int exit, const char* kind, uint32_t code, const std::string& text) {
  if (exit == kFailed) exit = context.failed;
  // Of a rank, the launcher may print it.
  if (!context.on_failure || !launcher_prints(text))
    context.terminal.error(as_printed(context, text));
  context.terminal.record(
      {{"event", "error"}, {"kind", kind}, {"code", code}, {"exit", exit}, {"message", text}});
  if (context.on_failure) context.on_failure(code, text);  // may wait for other ranks
  return exit;
}

// --help, --version.
int show_help(const CLI::App& app, const CLI::ParseError& e, Context& context) {
  std::ostringstream text;
  const int result = app.exit(e, text, text);
  if (dynamic_cast<const CLI::CallForVersion*>(&e))
    context.terminal.record({{"version", plait_version()}, {"abi", plait_abi_version()}});
  else
    context.terminal.record({{"help", text.str()}});
  if (context.terminal.human()) context.terminal.raw(text.str());
  return result;
}

int call_verb(Context& context) {
  try {
    return context.run_command();
  } catch (const HostError& e) {
    // The same problem of a file has one code, whichever verb meets it: that of `check`.
    const bool of_file =
        is_problem_list(e.what()) || (context.opening && e.code() == PLAIT_ERR_DATA);
    return fail(context, of_file ? kUsage : exit_code(e.code()), "engine", e.code(),
                context.with_hints(e.what()));
  } catch (const CliError& e) {
    return fail(context, e.code(), "cli", 0, e.what());
  } catch (const std::bad_alloc&) {
    return fail(context, kEnvironment, "cli", 0, "[cli] out of memory");
  } catch (const std::exception& e) {
    return fail(context, kFailed, "cli", 0, std::string("[cli] ") + e.what());
  }
}

// A result that did not arrive is a failure, however the verb ended: a full disk must not leave
// half of a file that looks whole.
int after_writing(Context& context, int result) {
  const int error = context.terminal.write_error();
  // The caller wants none, or no more of them: `plait run demo >&-`, `plait run demo | head -3`.
  if (error == 0 || error == EBADF || error == EPIPE) return result;
  const std::string text = "[cli] results could not be written to standard output: " +
                           std::generic_category().message(error);
  if (result == kOk) return fail(context, kEnvironment, "cli", PLAIT_ERR_IO, text);
  context.terminal.error(text);
  return result;
}

}  // namespace

int run_app(int argc, char** argv) {
  signal(SIGXFSZ, SIG_IGN);  // a file over the size limit becomes a reported error
  Context context;
  std::vector<std::string> words;
  for (int i = 0; i < argc; ++i) words.push_back(shell_quoted(argv[i]));
  context.words.assign(argv, argv + argc);
  context.command = joined(words, " ");
  CLI::App app("Trains neural networks from a TOML file.", "plait");
  set_up(app, context);
  if (argc > 1 && argv[1] == std::string_view(kCompleteVerb))
    return complete_words(app, context, {context.words.begin() + 2, context.words.end()});
  try {
    std::vector<std::string> given = plain_words(app, argc, argv);
    std::reverse(given.begin(), given.end());  // CLI11 expects vectors in reverse order
    app.parse(given);
  } catch (const CLI::ParseError& e) {
    // The flag may follow what parsing did not reach.
    for (int i = 1; i < argc; ++i) context.terminal.json |= std::string_view(argv[i]) == "--json";
    if (e.get_exit_code() == 0) return after_writing(context, show_help(app, e, context));
    return fail(context, kUsage, "cli", 0, usage_text(app, e, argc, argv));
  }
  if (!context.run_command) {
    std::fputs(app.help().c_str(), stderr);
    return kUsage;
  }
  return after_writing(context, call_verb(context));
}

}  // namespace plait::cli
