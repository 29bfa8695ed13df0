#include "engine/observe/run_lock.hpp"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <thread>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/process.hpp"
#include "engine/base/text.hpp"

namespace plait::observe {

namespace {

constexpr uint64_t kMost = 1024;  // maximal size of a lock file in bytes

// The content of a lock file: "host NAME, process 123".
constexpr char kHost[] = "host ", kProcess[] = ", process ";

// A start tries kTries times before it reads who has the lock, and kMostTries times at most: a run
// locks the file before it writes its name, so an older name may be in it, and `plait ls` locks the
// file for a moment to see whether a run has it.
constexpr int kTries = 10, kMostTries = 200;
constexpr auto kPause = std::chrono::milliseconds(5);

// What a lock file says of its holder; "" where it cannot be read. A second line is for check().
std::string holder_of(FileSystem& files, const std::string& path) {
  try {
    const std::string text = files.read_all(path, kMost);
    return printable(std::string(trim(text.substr(0, text.find('\n')))));
  } catch (const Error&) {
    return "";  // the content is informative; only the lock itself matters
  }
}

// Whether the named process may be running: not if it is one of this host that has ended, and not
// if there is no name.
bool may_run(const std::string& holder) {
  const size_t process = holder.rfind(kProcess);
  if (!starts_with(holder, kHost) || process == std::string::npos) return false;
  if (holder.substr(0, process) != kHost + host_name()) return true;
  pid_t id = 0;
  const char* const end = holder.data() + holder.size();
  const auto [at, error] = std::from_chars(holder.data() + process + sizeof kProcess - 1, end, id);
  return error == std::errc() && at == end && id > 0 && !process_ended(id);
}

std::unique_ptr<FileLock> lock_run(FileSystem& files, const std::string& folder,
                                   const std::string& path, const char* advice) {
  for (int tries = 1;; ++tries, std::this_thread::sleep_for(kPause)) {
    try {
      return files.lock(path);
    } catch (const Error& e) {
      if (e.code() != PLAIT_ERR_STATE) throw;
    }
    if (tries < kTries) continue;
    const std::string holder = holder_of(files, path);
    if (may_run(holder) || tries == kMostTries)
      fail(PLAIT_ERR_STATE, "[run] the run directory " + folder + " is in use by " +
                                (holder.empty() ? "another process" : holder) + "; " + advice);
  }
}

}  // namespace

RunLock::RunLock(FileSystem& files, const std::string& run_folder, const char* advice)
    : files_(files), folder_(run_folder) {
  const std::string path = join_path(run_folder, kName);
  lock_ = lock_run(files, run_folder, path, advice);
  // The second line differs between containers, where names of hosts and process ids may be equal.
  content_ = kHost + host_name() + kProcess + std::to_string(getpid()) + "\n" +
             strf("since %.9f\n", unix_seconds());
  const auto file = files.open(path, OpenMode::kReplace);
  file->write(content_);
  file->close();
}

void RunLock::check() const {
  const std::string path = join_path(folder_, kName);
  std::string now;
  try {
    now = files_.read_all(path, kMost);
  } catch (const Error&) {
    // A lock file that is gone does not show that another process has the run.
    return;
  }
  if (now == content_) return;
  const std::string holder = holder_of(files_, path);
  fail(PLAIT_ERR_STATE, "[run] the run directory " + folder_ + " has been taken over by " +
                            (holder.empty() ? "another process" : holder) +
                            " while this one was stopped; this run ends, and changes nothing more");
}

bool RunLock::is_in(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kName);
  const FileInfo info = files.info(path);
  if (info.kind != FileKind::kRegular || info.size > kMost) return false;
  const std::string text = files.read_all(path, kMost);
  return starts_with(text, kHost) && text.find(kProcess) != std::string::npos;
}

}  // namespace plait::observe
