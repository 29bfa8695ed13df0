#include "engine/observe/run_dir.hpp"

#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/json.hpp"
#include "engine/base/posix_read.hpp"
#include "engine/base/process.hpp"
#include "engine/base/text.hpp"
#include "kit/obstacle.hpp"

namespace plait::observe {

namespace {

constexpr char kHalf[] = ".tmp-";  // in the name of a file that replace() has not finished

std::string random_hex6() {
  uint32_t bits = 0;
  if (getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
    bits = static_cast<uint32_t>(monotonic_ns() ^ static_cast<uint64_t>(getpid()) << 20);
  return strf("%06x", bits & 0xFFFFFFu);
}

void write_plugins(FileSystem& files, const RunEnvironment& e, JsonWriter& json) {
  json.key("plugins").array();
  for (const PluginInfo& p : e.plugins) {
    json.object().field("name", p.name).field("version", p.version).field("path", p.path);
    try {
      json.field("xxh3_128", hash128_file(files, p.path).hex());
    } catch (const Error&) {
      json.key("xxh3_128").null();  // deleted since it was loaded: recorded as null, not an error
    }
    json.end_object();
  }
  json.end_array();
}

std::string environment_text(FileSystem& files, const RunEnvironment& e) {
  JsonWriter json(true);
  json.object().field("schema", 1).field("engine_version", e.engine_version).field("abi", e.abi);
  json.field("source_revision", e.source_revision).field("device", e.device);
  json.texts("arguments", e.arguments).field("command", e.command);
  json.field("host", host_name()).field("process", static_cast<int64_t>(getpid()));
  json.field("time", unix_seconds());
  utsname system = {};
  if (uname(&system) == 0)
    json.field("system", strf("%s %s %s", system.sysname, system.release, system.machine));
  json.field("cores", static_cast<int64_t>(sysconf(_SC_NPROCESSORS_ONLN)));
  write_plugins(files, e, json);
  json.end_object();
  return json.text() + "\n";
}

void check_name(const std::string& name) {
  const auto parts = split(name, '/');
  bool good = !parts.empty();
  for (const std::string& part : parts) good = good && is_safe_name(part);
  if (!good)
    fail_config("[run] the name '" + printable(name.substr(0, 200)) +
                "' cannot be used for a folder, expected at most 128 letters, digits, '-', '_' and "
                "'.', the "
                "first no '-' and no '.'; change run.name");
}

// Makes the directory entries of a folder and its parents durable, up to `top`.
void sync_up_to(FileSystem& files, std::string folder, const std::string& top) {
  while (true) {
    files.sync_folder(folder);
    const std::string parent = folder_of(folder);
    if (folder == top || parent == folder) break;
    folder = parent;
  }
}

void write_read_only(FileSystem& files, const std::string& path, std::string_view content) {
  files.replace(path, content);
  // Protects against mistakes, not against the owner; file systems without modes are fine.
  if (chmod(path.c_str(), 0444) != 0) return;
}

constexpr char kCheckpoints[] = "ckpt";
constexpr const char* kFolders[] = {"log", kCheckpoints};

std::string lines_of(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) lines += text + "\n";
  return lines;
}

// Writes the initial content of every new run directory. The file that makes it a run directory
// comes last.
void fill(FileSystem& files, const std::string& path, std::string_view resolved_toml,
          const std::vector<std::string>& overrides, const RunEnvironment& environment) {
  for (const char* folder : kFolders) files.make_folders(join_path(path, folder));
  files.replace(join_path(path, "overrides.txt"), lines_of(overrides));
  files.replace(join_path(path, "env.json"), environment_text(files, environment));
  write_read_only(files, join_path(path, "run.toml"), resolved_toml);
}

// Checkpoints that were copied here, for a run that continues from them.
bool holds_checkpoints(FileSystem& files, const std::string& folder) {
  for (const std::string& name : files.list(folder)) {
    const std::string path = join_path(folder, name);
    const bool hint = (name == "latest" || name == "best") && files.is_file(path);
    if (!hint && !(files.is_folder(path) && files.is_file(join_path(path, "MANIFEST.json"))))
      return false;
  }
  return true;
}

// Whether a run may be made beside this: an interrupted start may have left it before run.toml
// existed, an empty folder or lock; beside a run's lock, which comes first, also a complete or
// partial file; or somebody has put checkpoints there.
bool is_of_unfinished(FileSystem& files, const std::string& path, const std::string& name,
                      bool locked) {
  for (const char* folder : kFolders)
    if (name == folder) {
      const std::string inside = join_path(path, name);
      return files.list(inside).empty() ||
             (folder == kCheckpoints && holds_checkpoints(files, inside));
    }
  // In this order: a lock that is being made is empty before it is one.
  if (name == RunLock::kName)
    return locked || files.info(join_path(path, name)).size == 0 || RunLock::is_in(files, path);
  const std::string whole = name.substr(0, name.find(kHalf));
  for (const char* file : {"overrides.txt", "env.json", "run.toml"})
    if (whole == file) return locked;
  return false;
}

}  // namespace

bool is_safe_name(std::string_view name) {
  if (name.empty() || name.size() > 128 || name.front() == '.' || name.front() == '-') return false;
  for (const char c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_' || c == '.';
    if (!good) return false;
  }
  return true;
}

RunDir::RunDir(FileSystem& files, std::string path, std::string id)
    : files_(&files), path_(std::move(path)), id_(std::move(id)) {}

namespace {

bool can_be_listed(FileSystem& files, const std::string& folder) {
  try {
    files.list(folder);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The folder in which a run directory is made, or the directory itself. It is durable with the
// folders above that are new.
void make_place(FileSystem& files, const std::string& path) {
  std::string there = path;  // of it and the folders above, the first that exists
  try {
    while (!files.exists(there) && folder_of(there) != there) there = folder_of(there);
    files.make_folders(path);
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_IO && e.code() != PLAIT_ERR_NOT_FOUND) throw;
    const bool told = e.text().ends_with(kit::kAnotherPlace);
    fail(PLAIT_ERR_IO, e.text() + (told ? "" : std::string("; ") + kit::kAnotherPlace) +
                           " for the run's files, with --run-dir or run.out");
  }
  if (there == path) return;
  std::string folder = folder_of(path);
  for (; folder != there; folder = folder_of(folder)) files.sync_folder(folder);
  try {
    files.sync_folder(there);
  } catch (const Error&) {
    if (can_be_listed(files, there)) throw;
    // Who may write in a folder and not read it cannot make it durable.
  }
}

}  // namespace

RunDir RunDir::create(FileSystem& files, const std::string& out, const std::string& name,
                      std::string_view resolved_toml, const std::vector<std::string>& overrides,
                      const RunEnvironment& environment) {
  check_name(name);
  const std::string parent = join_path(out, name);
  make_place(files, parent);
  std::string stamp, path;
  // Two runs may start in the same second; only one of them can create the folder.
  for (int attempt = 0;; ++attempt) {
    stamp = utc_stamp(unix_seconds()) + "-" + random_hex6();
    path = join_path(parent, stamp);
    try {
      files.make_folder(path);
      break;
    } catch (const Error&) {
      if (attempt == 8 || !files.exists(path)) throw;
    }
  }
  fill(files, path, resolved_toml, overrides, environment);
  sync_up_to(files, path, out);
  return RunDir(files, path, name + "/" + stamp);
}

void RunDir::prepare(FileSystem& files, const std::string& path) {
  if (files.exists(path) && !files.is_folder(path))
    fail_invalid("[run] " + path + " is not a folder; name another one for the run's files");
  make_place(files, path);
  const std::vector<std::string> names = files.list(path);
  // Behind the list: a run that starts at the same moment writes its lock before its other files.
  const bool locked = RunLock::is_in(files, path);
  for (const std::string& name : names)
    if (!is_of_unfinished(files, path, name, locked))
      fail(PLAIT_ERR_STATE, "[run] " + path +
                                " is neither empty nor a run directory (it has no run.toml, but '" +
                                printable(name) + "'); name another folder");
}

namespace {

// "demo/20260131-235959-0a1b2c": the folder with the one around it, if the path names one.
std::string run_id(const std::string& path) {
  const std::string around = name_of(folder_of(path));
  return around == "." || around.empty() ? name_of(path) : around + "/" + name_of(path);
}

}  // namespace

RunDir RunDir::create_at(FileSystem& files, const std::string& path, std::string_view resolved_toml,
                         const std::vector<std::string>& overrides,
                         const RunEnvironment& environment) {
  prepare(files, path);
  for (const std::string& name : files.list(path))
    if (name.find(kHalf) != std::string::npos) files.remove(join_path(path, name));
  fill(files, path, resolved_toml, overrides, environment);
  sync_up_to(files, path, path);
  return RunDir(files, path, run_id(path));
}

namespace {

// run.toml and overrides.txt of a run that continues with other settings; what they were stays as
// run-1.toml, overrides-1.txt, ….
void replace_settings(FileSystem& files, const std::string& path, std::string_view resolved_toml,
                      const std::vector<std::string>& overrides) {
  constexpr uint64_t kMost = uint64_t{1} << 26;  // bytes
  const std::string experiment = join_path(path, "run.toml"),
                    words = join_path(path, "overrides.txt");
  const std::string before = files.read_all(experiment, kMost);
  if (before == resolved_toml) return;
  int n = 1;
  while (files.exists(join_path(path, strf("run-%d.toml", n)))) ++n;
  const std::string words_before = files.is_file(words) ? files.read_all(words, kMost) : "";
  files.replace(join_path(path, strf("overrides-%d.txt", n)), words_before);
  write_read_only(files, join_path(path, strf("run-%d.toml", n)), before);
  files.replace(words, lines_of(overrides));
  write_read_only(files, experiment, resolved_toml);
}

}  // namespace

RunDir RunDir::reopen(FileSystem& files, const std::string& path, std::string_view resolved_toml,
                      const std::vector<std::string>& overrides,
                      const RunEnvironment& environment) {
  if (!files.is_file(join_path(path, "run.toml")))
    fail_not_found("[run] " + path + " is not a run directory: it has no run.toml");
  for (const char* folder : kFolders) files.make_folders(join_path(path, folder));
  replace_settings(files, path, resolved_toml, overrides);
  int n = 2;
  while (files.exists(join_path(path, strf("env-%d.json", n)))) ++n;
  files.replace(join_path(path, strf("env-%d.json", n)), environment_text(files, environment));
  return RunDir(files, path, run_id(path));
}

std::unique_ptr<RunLock> lock_run_around(FileSystem& files, const std::string& path) {
  if (!files.is_folder(folder_of(path))) return nullptr;
  const std::string folder = files.real_path(folder_of(path)), run = folder_of(folder);
  if (name_of(folder) != kCheckpoints || !files.is_file(join_path(run, "run.toml"))) return nullptr;
  return std::make_unique<RunLock>(files, run,
                                   "wait until that run ends, or write to another folder");
}

std::string RunDir::metrics_path() const { return join_path(path_, "metrics.ndjson"); }
std::string RunDir::checkpoint_folder() const { return join_path(path_, kCheckpoints); }
std::string rank_log_path(const std::string& run_dir, int rank) {
  return join_path(run_dir, strf("log/rank-%d.log", rank));
}

void RunDir::write_status(const RunStatus& status) const {
  JsonWriter json(true);
  json.object().field("schema", 1).field("run", id_).field("state", status.state);
  json.field("step", status.step).field("steps", status.steps).key("loss");
  status.loss ? json.value(*status.loss) : json.null();
  json.field("message", status.message).field("checkpoint", status.checkpoint);
  json.field("time", unix_seconds()).field("process", static_cast<int64_t>(getpid())).end_object();
  files_->replace(join_path(path_, "status.json"), json.text() + "\n",
                  status.state == kRunning ? FileSystem::Sync::kNo : FileSystem::Sync::kYes);
}

namespace {

// A line of a log, or several for a text of several lines.
std::string log_text(uint32_t level, std::string_view text, double unix_seconds) {
  static constexpr const char* kLevels[] = {"debug", "info", "warn", "error"};
  std::string line = utc_text(unix_seconds) + strf(" %-5s ", kLevels[level < 4 ? level : 3]);
  // Control characters could let a name in a file forge lines or control the terminal of a reader.
  for (const std::string& part : split(text, '\n')) {
    if (line.back() == '\n') line += "  ";
    line += printable(part) + '\n';
  }
  if (line.back() != '\n') line += '\n';
  return line;
}

}  // namespace

LogFile::LogFile(FileSystem& files, const std::string& path)
    : file_(files, path, kLines, [this](const std::string& text) {
        notes_ += log_text(PLAIT_LOG_WARN, text, unix_seconds());
      }) {}

void LogFile::line(uint32_t level, std::string_view text) noexcept {
  line(level, text, unix_seconds());
}

void LogFile::line(uint32_t level, std::string_view text, double unix_seconds) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    file_.write(log_text(level, text, unix_seconds));
    // Written at once, or kept like the line.
    while (!notes_.empty()) file_.write(std::exchange(notes_, {}));
  } catch (const std::bad_alloc&) {
    // The run needs the memory more than this line.
  }
}

}  // namespace plait::observe
