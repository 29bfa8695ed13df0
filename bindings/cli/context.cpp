#include "bindings/cli/context.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "bindings/cli/data/sets.hpp"
#include "bindings/cli/launch/fd.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

// An environment variable that overrides a value: PLAIT__RUN__SEED=1 gives run.seed=1.
struct Variable {
  std::string override, text;
};

// Sorted, so that the result does not depend on the shell.
std::vector<Variable> environment_overrides() {
  constexpr std::string_view kPrefix = "PLAIT__";
  std::vector<Variable> all;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (!text.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    std::string key;
    for (size_t i = kPrefix.size(); i < equals; ++i) {
      const bool pair = text[i] == '_' && i + 1 < equals && text[i + 1] == '_';
      key += pair ? '.' : static_cast<char>(std::tolower(static_cast<unsigned char>(text[i])));
      if (pair) ++i;
    }
    all.push_back({key + std::string(text.substr(equals)), std::string(text)});
  }
  std::sort(all.begin(), all.end(),
            [](const Variable& a, const Variable& b) { return a.override < b.override; });
  return all;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// The message for a missing experiment, with the nearest name beside it.
std::string absent_text(const std::string& given) {
  fs::path path = fs::path(given).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::vector<std::string> names;
  std::error_code ignored;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (fs::directory_iterator at(folder, ignored), end; at != end && names.size() < 1000;
       at.increment(ignored))
    names.push_back(at->path().filename());
  if (find_data_set(given))
    return "[cli] there is no such file or folder: '" + given + "'; plait data get " + given +
           " downloads the data set of that name, and plait data get " + given +
           " --help tells where to";
  const std::string near = nearest(path.filename().string(), names);
  fs::path meant = near.empty() ? fs::path() : path.parent_path() / near;
  if (const fs::path example = "examples" / path; fs::exists(example, ignored)) meant = example;
  return "[cli] there is no such file or folder: '" + given + "'" +
         (meant.empty() ? "" : " (did you mean '" + meant.string() + "'?)") +
         "; plait new NAME makes a folder with a starter experiment";
}

// The path of the copy of a pipe, and what messages call it. A process reads one experiment.
struct Copy {
  std::string path, name;
} copy_of_pipe;

// The text of a pipe is needed more than once: for messages, and by ranks. So it goes to memory
// that has a path here and in child processes, and lasts as long as this process.
std::string path_of_copy(const std::string& given) {
  const auto fail = [&](const char* what) -> CliError {
    return {kEnvironment, "[cli] cannot " + std::string(what) + " '" + given +
                              "': " + std::generic_category().message(errno)};
  };
  const Fd opened(given == "-" ? dup(STDIN_FILENO) : open(given.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened) throw fail("open");
  const int memory = memfd_create("experiment", 0);
  if (memory < 0) throw fail("copy");
  constexpr size_t kMost = 64 << 20;  // more than the engine takes
  std::vector<char> block(1 << 16);
  for (size_t total = 0;;) {
    const ssize_t n = read(opened.get(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw fail("read");
    if (n == 0) break;
    if (write(memory, block.data(), static_cast<size_t>(n)) != n) throw fail("copy");
    total += static_cast<size_t>(n);
    if (total > kMost)
      throw CliError(kUsage, "[cli] '" + given + "' does not end; name an experiment file");
  }
  copy_of_pipe = {"/dev/fd/" + std::to_string(memory), given == "-" ? "standard input" : given};
  return copy_of_pipe.path;
}

// A refused override with several values for one key: "rate=0.1,0.01".
bool is_sweep(const std::string& line) {
  const size_t begin = line.find("override '"), found = line.rfind(", found \"");
  if (begin == std::string::npos || found == std::string::npos) return false;
  const size_t end = line.find("': ", begin), first = line.find_first_of("=,[ ", begin + 10);
  return first < end && line[first] == '=' &&
         line.substr(first, end - first).find(',') != line.npos;
}

}  // namespace

bool is_problem_list(const std::string& text) {
  const std::string first = text.substr(0, text.find('\n'));
  return first.starts_with("[config] ") && first.ends_with(" in the experiment:");
}

int exit_code(uint32_t code) {
  switch (code) {
    case PLAIT_OK:
      return kOk;
    case PLAIT_ERR_INVALID:
    case PLAIT_ERR_CONFIG:
    case PLAIT_ERR_NOT_FOUND:
      return kUsage;
    case PLAIT_ERR_UNIMPLEMENTED:
    case PLAIT_ERR_IO:
    case PLAIT_ERR_PLUGIN:
    case PLAIT_ERR_MEMORY:
    case PLAIT_ERR_DEVICE:
      return kEnvironment;
    case PLAIT_ERR_CANCELLED:
      return kInterrupted;
    case PLAIT_ERR_NUMERIC:
      return kNumeric;
    default:
      return kFailed;
  }
}

std::string FileArguments::path() const {
  std::error_code ignored, reason;
  if (!copied_.empty()) return copied_;
  if (given == "-" || fs::is_fifo(given, ignored) || fs::is_socket(given, ignored))
    return copied_ = path_of_copy(given);
  // A file that exists but is not accessible is left to the engine, which reports why.
  if (!fs::exists(given, reason) && !reason) throw CliError(kUsage, absent_text(given));
  if (!fs::is_directory(given, ignored)) return given;
  for (const char* name : {"experiment.toml", "run.toml"})
    if (const fs::path inside = fs::path(given) / name; fs::exists(inside, ignored)) return inside;
  // What plait export hf has written, or a download.
  if (fs::exists(fs::path(given) / "config.json", ignored))
    throw CliError(kUsage, "[cli] '" + given +
                               "' is a folder of another library's model, without an "
                               "experiment.toml; make an experiment of it with: plait import hf " +
                               path_word(given) + " NEW_FOLDER");
  throw CliError(
      kUsage,
      "[cli] '" + given +
          "' is a folder without an experiment.toml; name the file, or make a starter folder with: "
          "plait new NAME");
}

std::vector<std::string> FileArguments::overrides() const {
  std::vector<std::string> all;
  for (const Variable& one : environment_overrides()) all.push_back(one.override);
  all.insert(all.end(), set.begin(), set.end());
  all.insert(all.end(), positional.begin(), positional.end());
  return all;
}

Session Context::open_session(const Plan& plan, SessionSettings settings) {
  opening = true;
  Session session(plan, std::move(settings));
  opening = false;
  return session;
}

Engine Context::open_engine() {
  EngineSettings settings;
  settings.log = [this](uint32_t level, std::string_view text) {
    terminal.log(level, with_given_name(std::string(text)));
  };
  settings.log_level = terminal.log_level();
  // Whoever waits for the call can only wait on, so the process ends, and with it the call. The log
  // has said why.
  settings.on_late = [this](std::string_view text) {
    try {
      if (on_failure) on_failure(PLAIT_ERR_PLUGIN, std::string(text));
      terminal.record({{"event", "error"},
                       {"kind", "engine"},
                       {"code", PLAIT_ERR_PLUGIN},
                       {"exit", static_cast<int>(kEnvironment)},
                       {"message", text}});
    } catch (const std::exception&) {
      // No memory for a record.
    }
    _exit(kEnvironment);
  };
  settings.plugin_paths = plugins;
  settings.data_folder = data;
  if (!data.empty()) {
    std::error_code ignored;
    if (!fs::is_directory(data, ignored))
      throw CliError(kUsage, "[cli] --data '" + data +
                                 "' is not a folder; name the folder that contains the data files");
    fs::path folder = fs::absolute(data, ignored).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();  // "data/", "."
    settings.data_folder = folder;
  }
  return Engine(std::move(settings));
}

std::string Context::arguments_text(const FileArguments& file) const {
  std::string text = " " + path_word(file.given);
  for (const std::string& one : file.set) text += " --set " + shell_quoted(one);
  for (const std::string& one : file.positional) text += " " + shell_quoted(one);
  for (const std::string& one : plugins) text += " --plugins " + shell_quoted(one);
  if (!data.empty()) text += " --data " + shell_quoted(data);
  return text;
}

std::string Context::with_given_name(std::string text) const {
  const Copy& copy = copy_of_pipe;
  if (copy.path.empty()) return text;
  for (size_t at = text.find(copy.path); at != std::string::npos; at = text.find(copy.path, at)) {
    const size_t end = at + copy.path.size();
    // "/dev/fd/3" is no part of "/dev/fd/31".
    const bool ends = end == text.size() || !std::isdigit(static_cast<unsigned char>(text[end]));
    if (ends) text.replace(at, copy.path.size(), copy.name);
    at = ends ? at + copy.name.size() : end;
  }
  return text;
}

std::string Context::data_folder() const {
  if (!data.empty()) return data;
  const char* variable = std::getenv("PLAIT_DATA");
  return variable ? variable : "";
}

namespace {

// Whether all files of a set are in a folder. Their bytes are not read.
bool holds_set(const fs::path& folder, const DataSet& set) {
  std::error_code ignored;
  return std::all_of(set.files.begin(), set.files.end(),
                     [&](const SetFile& one) { return fs::exists(folder / one.name, ignored); });
}

// Where a missing file of a public data set is, or comes from; "" for other files.
std::string set_hint(const std::string& file) {
  std::string present, others;
  for (const DataSet& set : data_sets())
    for (const SetFile& one : set.files) {
      if (file != one.name) continue;
      const fs::path folder = fs::path("data") / set.name;  // where `plait data get` puts it
      std::string& to = holds_set(folder, set) ? present : others;
      to += (to.empty() ? "" : " or ") + (&to == &present
                                              ? "--data " + folder.string()
                                              : "plait data get " + std::string(set.name));
    }
  if (!present.empty()) return "; it is here already: use " + present;
  return others.empty() ? "" : "; " + others + " downloads it";
}

// The path of a file that a dataset did not find; "" where the line is about something else.
fs::path unopened_data(const std::string& line) {
  const size_t end = line.find("': cannot open it: No such file or directory");
  if (end == std::string::npos || end == 0 || line.find("[data.") == std::string::npos) return "";
  const size_t begin = line.rfind('\'', end - 1) + 1;
  return line.substr(begin, end - begin);
}

}  // namespace

std::string Context::hint_for(const std::string& line) const {
  if (is_sweep(line)) return "; plait sweep trains with each of several values";
  constexpr std::string_view kFile = "file '";
  const size_t at = line.find(kFile);
  const fs::path unopened = unopened_data(line);
  const bool missing = at != std::string::npos && line.find("' not found") != std::string::npos;
  if (!missing && unopened.empty()) return "";
  std::error_code ignored;
  const std::string folder = data_folder();
  if (!folder.empty() && !fs::is_directory(folder, ignored))
    return "; PLAIT_DATA is '" + folder + "', which is not a folder";
  if (!unopened.empty())
    return (unopened.is_absolute() || !folder.empty()
                ? ""
                : "; --data DIR (or PLAIT_DATA) names the folder that such paths start from") +
           set_hint(unopened.filename());
  const size_t begin = at + kFile.size();
  const fs::path file = line.substr(begin, line.find('\'', begin) - begin);
  return set_hint(file.filename());
}

std::string Context::with_hints(const std::string& text) const {
  std::string all, told;
  for (size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin), hint = hint_for(line);
    // Behind the last of several lines in a row.
    if (hint != told) all += told;
    told = hint;
    all += (begin ? "\n" : "") + line;
  }
  all += told;
  if (!command_of_file.empty()) replace_all(all, "plait run FILE", command_of_file);
  for (const Variable& one : environment_overrides())
    replace_all(all, "override '" + one.override + "'", "environment variable " + one.text);
  return with_given_name(std::move(all));
}

std::string unbounded_reason(const Json& values) {
  for (const char* key : {"run.steps", "run.epochs"})
    if (const auto at = values.find(key); at != values.end() && at->value("value", 0LL) > 0)
      return "";
  return "the length of the run is not set; set run.steps or run.epochs";
}

void add_file(CLI::App& verb, FileArguments& to) {
  verb.add_option("FILE", to.given, "experiment file, or a folder that contains an experiment.toml")
      ->required();
  verb.add_option(
      "key=value", to.positional,
      "overrides values of the file, as in optimizer.learning_rate=0.1; ~key removes a key");
  verb.add_option("--set", to.set, "same as key=value (repeatable)")
      ->allow_extra_args(false)
      ->type_name("key=value");
}

CLI::Validator whole_number(int64_t least) {
  return {[least](const std::string& text) {
            int64_t n = 0;
            const char* const end = text.data() + text.size();
            const auto read = std::from_chars(text.data(), end, n);
            if (read.ec == std::errc() && read.ptr == end && n >= least) return std::string();
            return "expected a whole number of " + std::to_string(least) + " or more, found '" +
                   text + "'" +
                   (read.ec == std::errc::result_out_of_range ? ", which 64 bits do not hold" : "");
          },
          ""};
}

void add_ranks(CLI::App& verb, int64_t& to) {
  verb.add_option("--ranks", to,
                  "ranks to start on this machine, where nothing else has started them; an axis of "
                  "[topology] that is 0 follows from them; default: as many as [topology] asks for")
      ->type_name("N")
      ->check(whole_number(1));
}

}  // namespace plait::cli
