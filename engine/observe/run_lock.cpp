#include "engine/observe/run_lock.hpp"

#include <unistd.h>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::observe {

namespace {

constexpr uint64_t kMost = 1024;  // maximal size of a lock file in bytes

// The content of a lock file: "host NAME, process 123".
constexpr char kHost[] = "host ", kProcess[] = ", process ";

// What a lock file says of its holder; "" where it cannot be read. A second line is for check().
std::string holder_of(FileSystem& files, const std::string& path) {
  try {
    const std::string text = files.read_all(path, kMost);
    return printable(std::string(trim(text.substr(0, text.find('\n')))));
  } catch (const Error&) {
    return "";  // the content is informative; only the lock itself matters
  }
}

}  // namespace

RunLock::RunLock(FileSystem& files, const std::string& run_folder, const char* advice)
    : files_(files), folder_(run_folder) {
  const std::string path = join_path(run_folder, kName);
  try {
    lock_ = files.lock(path);
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_STATE) throw;
    const std::string holder = holder_of(files, path);
    fail(PLAIT_ERR_STATE, "[run] the run directory " + run_folder + " is in use by " +
                              (holder.empty() ? "another process" : holder) + "; " + advice);
  }
  char host[256] = "unknown";
  gethostname(host, sizeof host - 1);
  // The second line differs between containers, where names of hosts and process ids may be equal.
  content_ = std::string(kHost) + host + kProcess + std::to_string(getpid()) + "\n" +
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
