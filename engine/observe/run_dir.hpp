// The run directory: all files of one run.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/observe/appended_file.hpp"
#include "engine/observe/run_lock.hpp"

namespace plait::observe {

struct PluginInfo {
  std::string name, version, path;
};

// The content of env.json.
struct RunEnvironment {
  std::string engine_version;
  uint32_t abi = 0;
  std::string source_revision;  // of the build; "" if it was not built from a repository
  std::string device;
  std::vector<std::string> arguments;  // of the process
  std::string command;                 // the command line as reported by the host; may be empty
  std::vector<PluginInfo> plugins;     // each is written with the XXH3-128 of its file
};

inline constexpr char kRunning[] = "running", kDone[] = "done";
struct RunStatus {
  std::string state = {};  // kRunning, kDone, "failed", "interrupted"
  int64_t step = 0, steps = 0;
  std::optional<double> loss = {};  // of the newest step of this process; none: it made none
  std::string message = {};         // of the error, or why a run is done before its last step
  std::string checkpoint = {};      // newest committed checkpoint
};

// True for a single path component that is safe as a folder name: letters, digits, `-`, `_`, `.`,
// not starting with `-` or `.`, 1 to 128 bytes.
bool is_safe_name(std::string_view name);

// A run directory `<out>/<name>/<YYYYMMDD-HHMMSS>-<6 hex>`, or an existing one that a run
// continues.
class RunDir {
 public:
  // Creates it with run.toml (read-only), overrides.txt, env.json, log/ and ckpt/ inside.
  // `name` may have several components ("mnist/lr"), each of them safe. Errors: PLAIT_ERR_CONFIG
  // for an unsafe name; PLAIT_ERR_IO.
  static RunDir create(FileSystem& files, const std::string& out, const std::string& name,
                       std::string_view resolved_toml, const std::vector<std::string>& overrides,
                       const RunEnvironment& environment);
  // Creates a folder named by the user if it is absent, and checks that a run directory can be made
  // in it: it is empty, or holds only checkpoints in ckpt/, a lock, and the leftovers of an
  // interrupted start. Errors: PLAIT_ERR_STATE if it holds anything else.
  static void prepare(FileSystem& files, const std::string& path);
  // Like create(), in such a folder. A caller that may compete with other processes must hold its
  // lock.
  static RunDir create_at(FileSystem& files, const std::string& path,
                          std::string_view resolved_toml, const std::vector<std::string>& overrides,
                          const RunEnvironment& environment);
  // Opens an existing run directory to continue it. env.json is kept, and env-2.json, env-3.json,
  // ... are added. run.toml and overrides.txt belong to this process; where they differ from
  // before, the earlier ones are kept as run-1.toml and overrides-1.txt, and so on.
  static RunDir reopen(FileSystem& files, const std::string& path, std::string_view resolved_toml,
                       const std::vector<std::string>& overrides,
                       const RunEnvironment& environment);

  const std::string& path() const { return path_; }
  const std::string& id() const { return id_; }  // "mnist/20260131-235959-0a1b2c"
  std::string metrics_path() const;
  std::string checkpoint_folder() const;

  // Replaces status.json atomically. The state of an unfinished run is a view for other processes,
  // written every few seconds by the thread that trains, which waits for no disk. How a run ended
  // is kept: it survives a crash of the machine.
  void write_status(const RunStatus& status) const;

 private:
  RunDir(FileSystem& files, std::string path, std::string id);
  FileSystem* files_;
  std::string path_, id_;
};

// The lock of the run among whose checkpoints `path` lies, a file or folder to be made; null: among
// no run's. A run that starts or saves meanwhile would remove what is not complete there.
// Errors: PLAIT_ERR_STATE when the run is in use.
std::unique_ptr<RunLock> lock_run_around(FileSystem& files, const std::string& path);

std::string rank_log_path(const std::string& run_dir, int rank);

// log/rank-N.log: lines with time and level, appended. Thread-safe. What cannot be written is kept
// or lost as AppendedFile says; the log itself says so when it is written again.
class LogFile {
 public:
  LogFile(FileSystem& files, const std::string& path);
  void line(uint32_t level, std::string_view text, double unix_seconds) noexcept;
  void line(uint32_t level, std::string_view text) noexcept;  // of now

 private:
  std::mutex mutex_;
  std::string notes_;  // lines about the file that are to be written next
  AppendedFile file_;
};

}  // namespace plait::observe
