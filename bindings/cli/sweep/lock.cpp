#include "bindings/cli/sweep/lock.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>

#include "bindings/cli/context.hpp"
#include "bindings/cli/run_record.hpp"

namespace plait::cli {
namespace {

// "host NAME, process 123", as the lock of a run directory has it.
std::string own_name() {
  char host[256] = "unknown";
  gethostname(host, sizeof host - 1);
  return std::string("host ") + host + ", process " + std::to_string(getpid());
}

std::string holder_in(int fd) {
  char text[512];
  const ssize_t n = pread(fd, text, sizeof text, 0);
  const std::string holder(text, n > 0 ? static_cast<size_t>(n) : 0);
  return holder.substr(0, holder.find('\n'));
}

}  // namespace

SweepLock::SweepLock(const std::string& folder) {
  const std::string path = folder + "/sweep.lock";
  file_ = Fd(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (file_ && flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    const std::string holder = holder_in(file_.get());
    throw CliError(kEnvironment, "[cli] the sweep in '" + folder + "' is in use by " +
                                     (holder.empty() ? "another process" : plain(holder)) +
                                     "; wait until it ends, stop it, or name another folder with "
                                     "--dir");
  }
  const std::string name = own_name() + "\n";
  if (!file_ || ftruncate(file_.get(), 0) != 0 ||
      pwrite(file_.get(), name.data(), name.size(), 0) != static_cast<ssize_t>(name.size()))
    throw CliError(kEnvironment, "[cli] '" + path + "' cannot be written: " + std::strerror(errno));
}

}  // namespace plait::cli
