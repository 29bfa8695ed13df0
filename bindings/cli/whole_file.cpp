#include "bindings/cli/whole_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

bool write_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n > 0)
      at += static_cast<size_t>(n);
    else if (errno != EINTR)
      return false;
  }
  return true;
}

// Into what is there: a pipe, a device, or a file that cannot be replaced.
bool write_to(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = write_all(fd, text);
  const int reason = errno;
  const bool closed = close(fd) == 0;
  if (!written) errno = reason;
  return written && closed;
}

// A new file beside it, so that both are on one file system, with the permissions of the old one.
// False, with errno: it could not be made, or not take the place of the old one.
bool replace(const fs::path& path, mode_t mode, const std::string& text) {
  std::string part = path.string() + ".XXXXXX";
  const int fd = mkostemp(part.data(), O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = fchmod(fd, mode) == 0 && write_all(fd, text);
  int reason = errno;
  const bool closed = close(fd) == 0;
  if (written && !closed) reason = errno;
  if (written && closed && std::rename(part.c_str(), path.c_str()) == 0) return true;
  if (written && closed) reason = errno;
  unlink(part.c_str());
  errno = reason;
  return false;
}

// Where a link leads to, though there may be no file yet.
fs::path behind_links(fs::path path) {
  std::error_code none;
  for (int i = 0; i < 40 && fs::is_symlink(path, none); ++i)
    path = path.parent_path() / fs::read_symlink(path, none);
  return path;
}

mode_t mode_of_new_files() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

}  // namespace

void write_whole_file(const std::string& path, const std::string& text) {
  struct stat now {};
  errno = 0;
  const bool there = stat(path.c_str(), &now) == 0;
  bool done = false;
  if (there && !S_ISREG(now.st_mode)) {
    done = write_to(path, text);
  } else {
    done = replace(behind_links(path), there ? now.st_mode & 07777 : mode_of_new_files(), text);
    // A file that may be written, in a folder that may not, or that is mounted as a file.
    if (!done && there && (errno == EACCES || errno == EPERM || errno == EBUSY || errno == EROFS))
      done = write_to(path, text);
  }
  if (!done)
    throw CliError(kEnvironment, "[cli] cannot write '" + path + "': " + std::strerror(errno));
}

}  // namespace plait::cli
