// What the verbs share: exit codes, options that stand before or after any verb, and opening an engine with them.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <plait/plait.hpp>

#include "bindings/cli/terminal.hpp"

namespace CLI {
class App;
}

namespace plait::cli {

enum Exit : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,        // command line or experiment file
  kEnvironment = 3,  // this machine lacks something: a device, space, a network
  kInterrupted = 4,  // saved; the run can go on
  kNumeric = 5,      // stopped because values were not finite
};
int exit_code(uint32_t error_code);  // of a PLAIT_ERR_*

// A failure the command line found itself.
class CliError : public std::runtime_error {
 public:
  CliError(Exit code, const std::string& text) : std::runtime_error(text), code_(code) {}
  Exit code() const { return code_; }

 private:
  Exit code_;
};

// FILE and its overrides, as most verbs take them.
struct FileArguments {
  std::string given;                    // as it was typed; a folder stands for the experiment in it
  std::vector<std::string> positional;  // key=value
  std::vector<std::string> set;         // of --set
  std::string path() const;             // of the file itself
  // PLAIT__A__B=value of the environment as a.b=value, then --set, then positional: later ones win.
  std::vector<std::string> overrides() const;
};

class Context {
 public:
  Terminal terminal;
  std::vector<std::string> plugins;  // --plugins
  std::string data;                  // --data
  bool yes = false;
  std::string command;               // the whole command line, quoted for a shell
  std::vector<std::string> words;    // the same, not quoted
  std::function<int()> run_command;  // the verb that was parsed
  // Told of the failure that ends the command.
  std::function<void(uint32_t code, const std::string& text)> on_failure;

  // With the log going to the terminal.
  Engine open_engine();
  // --data, else $PLAIT_DATA, else "".
  std::string data_folder() const;
  // The engine's text of problems with what only the command line knows: variables of the environment, sets that can be fetched.
  std::string with_hints(const std::string& text) const;
  // What to add to a line that says a file is missing; "" where it says no such thing.
  std::string hint_for(const std::string& line) const;
};

// Why `plait run` would not end, "" where it would: an experiment whose host decides that is fine for the engine. `values`: as an
// experiment describes them.
std::string unbounded_reason(const Json& values);

// Adds FILE, key=value... and --set to a verb.
void add_file(CLI::App& verb, FileArguments& to);

// Each adds one verb; verbs/<name>.cpp.
void add_run(CLI::App& app, Context& context);
void add_check(CLI::App& app, Context& context);
void add_plan(CLI::App& app, Context& context);
void add_bind(CLI::App& app, Context& context);
void add_new(CLI::App& app, Context& context);
void add_eval(CLI::App& app, Context& context);
void add_plugins(CLI::App& app, Context& context);
void add_ops(CLI::App& app, Context& context);
void add_data(CLI::App& app, Context& context);
void add_env(CLI::App& app, Context& context);
void add_completion(CLI::App& app, Context& context);

}  // namespace plait::cli
