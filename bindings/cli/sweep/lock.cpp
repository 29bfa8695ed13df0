#include "bindings/cli/sweep/lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "bindings/cli/context.hpp"
#include "bindings/cli/runs/run_record.hpp"

namespace plait::cli {
namespace {

// A sweep tries kTries times before it reads who has the lock, and kMostTries times at most: the
// holder locks the file before it writes its name, so an older name, or none, may be in it.
constexpr int kTries = 10, kMostTries = 200;
constexpr auto kPause = std::chrono::milliseconds(5);

// The first line.
std::string holder_in(int fd) {
  char text[512];
  const ssize_t n = pread(fd, text, sizeof text, 0);
  const std::string holder(text, n > 0 ? static_cast<size_t>(n) : 0);
  return holder.substr(0, holder.find('\n'));
}

}  // namespace

SweepLock::SweepLock(const std::string& folder) {
  const std::string path = folder + "/sweep.lock";
  const auto fail_with = [&](const std::string& what, int error) {
    throw CliError(kEnvironment, "[cli] '" + path + "' cannot be " + what + ": " +
                                     std::strerror(error) + "; name another folder with --dir");
  };
  file_ = Fd(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!file_) fail_with("opened", errno);
  for (int tries = 1; flock(file_.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    // A file system without locks: a second sweep could not be refused.
    if (errno != EWOULDBLOCK) fail_with("locked", errno);
    std::this_thread::sleep_for(kPause);
    if (tries < kTries) continue;
    const std::string holder = holder_in(file_.get());
    if (holder.empty() && tries < kMostTries) continue;
    throw CliError(kEnvironment, "[cli] the sweep in '" + folder + "' is in use by " +
                                     (holder.empty() ? "another process" : plain(holder)) +
                                     "; wait until it ends, stop it, or name another folder with "
                                     "--dir");
  }
  // As the lock of a run directory has it.
  const std::string name = "host " + own_host() + ", process " + std::to_string(getpid()) + "\n";
  if (ftruncate(file_.get(), 0) != 0 ||
      pwrite(file_.get(), name.data(), name.size(), 0) != static_cast<ssize_t>(name.size()))
    fail_with("written", errno);
}

}  // namespace plait::cli
