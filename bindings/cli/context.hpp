// Shared by all verbs: exit codes, the common options, and opening an engine with them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <plait/plait.hpp>

#include "bindings/cli/terminal/terminal.hpp"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace plait::cli {

enum Exit : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,        // command line or experiment file
  kEnvironment = 3,  // something is missing on this machine: a device, disk space, the network
  kInterrupted = 4,  // saved; the run can be resumed
  kNumeric = 5,      // stopped at values that are not finite
};
int exit_code(uint32_t error_code);  // of a PLAIT_ERR_*
// Whether an error lists the problems of an experiment and of the files that it names.
bool is_problem_list(const std::string& text);

// A failure detected by the command line itself.
class CliError : public std::runtime_error {
 public:
  CliError(Exit code, const std::string& text) : std::runtime_error(text), code_(code) {}
  Exit code() const { return code_; }

 private:
  Exit code_;
};

// FILE and its overrides, as most verbs take them.
struct FileArguments {
  std::string given;                    // as typed; a folder stands for the experiment in it
  std::vector<std::string> positional;  // key=value
  std::vector<std::string> set;         // of --set
  // Of the file itself; a pipe, or - for standard input, is read once, into memory with a path.
  std::string path() const;
  // Whether it came from a pipe.
  bool is_copy() const { return !copied_.empty(); }
  // Environment variables PLAIT__A__B=value as a.b=value, then --set, then positional; the later
  // one wins.
  std::vector<std::string> overrides() const;

 private:
  mutable std::string copied_;  // the path of that memory
};

class Context {
 public:
  Terminal terminal;
  std::vector<std::string> plugins;  // --plugins
  std::string data;                  // --data
  bool yes = false;
  std::string command;               // the whole command line, quoted for a shell
  std::vector<std::string> words;    // the same, not quoted
  std::string command_of_file;       // "plait run FILE ..." of the experiment; "": of none
  std::function<int()> run_command;  // the verb that was parsed
  Exit failed = kFailed;             // the code of a failure that would have kFailed
  bool opening = false;              // inside open_session()
  // Called with the failure that ends the command.
  std::function<void(uint32_t code, const std::string& text)> on_failure;

  // The engine's log goes to the terminal.
  Engine open_engine();
  // Files that cannot be read meanwhile are a fault of the experiment that names them.
  Session open_session(const Plan& plan, SessionSettings settings);
  // --data, else $PLAIT_DATA, else "".
  std::string data_folder() const;
  // The engine's problem text plus facts that only the command line knows: environment variables,
  // data sets that can be downloaded.
  std::string with_hints(const std::string& text) const;
  // With the name that the user gave in place of that of the copy of a pipe.
  std::string with_given_name(std::string text) const;
  // " FILE key=value... --plugins P --data D": this experiment on another command line.
  std::string arguments_text(const FileArguments& file) const;
  // The hint for a line that reports a missing file; "" for other lines.
  std::string hint_for(const std::string& line) const;

  bool listed_elsewhere = false;  // another rank of this machine lists the problems of the file
};

// Why `plait run` would never end; "" if it would. The engine accepts such an experiment because a
// host may decide when to stop. `values`: as in Experiment::describe().
std::string unbounded_reason(const Json& values);

// Adds FILE, key=value... and --set to a verb.
void add_file(CLI::App& verb, FileArguments& to);

// Checks the value of an option.
CLI::Validator whole_number(int64_t least);

// Adds --ranks, the ranks to start on this machine, to a verb.
void add_ranks(CLI::App& verb, int64_t& to);

// Each adds one verb; verbs/<name>.cpp.
void add_run(CLI::App& app, Context& context);
void add_check(CLI::App& app, Context& context);
void add_plan(CLI::App& app, Context& context);
void add_bind(CLI::App& app, Context& context);
void add_new(CLI::App& app, Context& context);
void add_eval(CLI::App& app, Context& context);
void add_predict(CLI::App& app, Context& context);
void add_generate(CLI::App& app, Context& context);
void add_import(CLI::App& app, Context& context);
void add_export(CLI::App& app, Context& context);
void add_merge(CLI::App& app, Context& context);
void add_adapters(CLI::App& app, Context& context);
void add_checkpoint(CLI::App& app, Context& context);
void add_checkpoint_verify(CLI::App& checkpoint, Context& context);
void add_checkpoint_diff(CLI::App& checkpoint, Context& context);
void add_checkpoint_convert(CLI::App& checkpoint, Context& context);
void add_plugins(CLI::App& app, Context& context);
void add_profile(CLI::App& app, Context& context);
void add_plot(CLI::App& app, Context& context);
void add_board(CLI::App& app, Context& context);
void add_runs(CLI::App& app, Context& context);
void add_compare(CLI::App& app, Context& context);
void add_status(CLI::App& app, Context& context);
void add_sweep(CLI::App& app, Context& context);
void add_submit(CLI::App& app, Context& context);
void add_keys(CLI::App& app, Context& context);
void add_ops(CLI::App& app, Context& context);
void add_data(CLI::App& app, Context& context);
void add_data_tokenize(CLI::App& data, Context& context);
// without: what the verb does without a file.
void add_data_show(CLI::App& data, Context& context, std::function<int()> without);
void add_devices(CLI::App& app, Context& context);
void add_env(CLI::App& app, Context& context);
void add_completion(CLI::App& app, Context& context);

}  // namespace plait::cli
