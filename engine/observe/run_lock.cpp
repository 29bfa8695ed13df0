#include "engine/observe/run_lock.hpp"

#include <unistd.h>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::observe {

namespace {

constexpr uint64_t kMost = 1024;  // maximal size of a lock file in bytes

// The content of a lock file: "host NAME, process 123".
constexpr char kHost[] = "host ", kProcess[] = ", process ";

}  // namespace

RunLock::RunLock(FileSystem& files, const std::string& run_folder) {
  const std::string path = join_path(run_folder, kName);
  try {
    lock_ = files.lock(path);
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_STATE) throw;
    std::string holder;
    try {
      holder = std::string(trim(files.read_all(path, kMost)));
    } catch (const Error&) {
      // The content is informative; only the lock itself matters.
    }
    fail(PLAIT_ERR_STATE, "[run] the run directory " + run_folder + " is in use by " +
                              (holder.empty() ? "another process" : printable(holder)) +
                              "; stop that run, or start this one in a directory of its own");
  }
  char host[256] = "unknown";
  gethostname(host, sizeof host - 1);
  const auto file = files.open(path, OpenMode::kReplace);
  file->write(std::string(kHost) + host + kProcess + std::to_string(getpid()) + "\n");
  file->close();
}

bool RunLock::is_in(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kName);
  const FileInfo info = files.info(path);
  if (info.kind != FileKind::kRegular || info.size > kMost) return false;
  const std::string text = files.read_all(path, kMost);
  return starts_with(text, kHost) && text.find(kProcess) != std::string::npos;
}

}  // namespace plait::observe
