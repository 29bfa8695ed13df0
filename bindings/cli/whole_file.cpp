#include "bindings/cli/whole_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

bool write_all(int fd, std::string_view text) {
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

// A file that may be written may still be in a folder that may not, or be mounted as a file.
bool may_not_be_replaced(int reason) {
  return reason == EACCES || reason == EPERM || reason == EBUSY || reason == EROFS;
}

// Into the file that is there. False, with errno: its text is lost.
bool copy_into(const std::string& from, const std::string& to) {
  std::ifstream file(from, std::ios::binary);
  const int fd = file ? open(to.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC) : -1;
  if (fd < 0) return false;
  std::string some(1 << 20, '\0');
  bool written = true;
  while (written && file) {
    file.read(some.data(), static_cast<std::streamsize>(some.size()));
    written = !file.bad() &&
              write_all(fd, std::string_view(some).substr(0, static_cast<size_t>(file.gcount())));
  }
  const int reason = errno;
  const bool closed = close(fd) == 0;
  if (!written) errno = reason;
  return written && closed;
}

// Where a link leads to, though there may be no file yet.
fs::path behind_links(fs::path path) {
  std::error_code none;
  for (int i = 0; i < 40 && fs::is_symlink(path, none); ++i)
    path = path.parent_path() / fs::read_symlink(path, none);
  return path;
}

// A file that is mounted by itself, as containers do it, cannot be replaced.
bool is_mounted(const std::string& path) {
  struct statx now {};
  return statx(AT_FDCWD, path.c_str(), 0, STATX_TYPE, &now) == 0 &&
         (now.stx_attributes_mask & now.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

// Whether the path is a name of the open file.
bool leads_to(const std::string& path, int fd) {
  struct stat named {};
  struct stat opened {};
  return lstat(path.c_str(), &named) == 0 && fstat(fd, &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

mode_t mode_of_new_files() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

}  // namespace

void check_svg_name(const std::string& option, const std::string& path) {
  std::string end = fs::path(path).extension();
  for (char& c : end) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* other :
       {".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".pdf", ".eps", ".ps"})
    if (end == other)
      throw CliError(kUsage, "[cli] " + option + " writes SVG, found the name '" + path +
                                 "'; name it " +
                                 shell_quoted(fs::path(path).replace_extension(".svg").string()) +
                                 ", which a browser shows and other programs convert");
}

void write_whole_file(const std::string& path, const std::string& text) {
  struct stat now {};
  errno = 0;
  const bool there = stat(path.c_str(), &now) == 0;
  bool done = false;
  if (there && !S_ISREG(now.st_mode)) {
    done = write_to(path, text);
  } else {
    done = replace(behind_links(path), there ? now.st_mode & 07777 : mode_of_new_files(), text);
    if (!done && there && may_not_be_replaced(errno)) done = write_to(path, text);
  }
  if (!done)
    throw CliError(kEnvironment, "[cli] cannot write '" + path + "': " + std::strerror(errno));
}

bool print_or_write(Terminal& terminal, const std::string& path, const std::string& text) {
  const bool prints = path == "-";
  prints ? terminal.raw(text) : write_whole_file(path, text);
  return prints;
}

std::string partial_path(const std::string& path) {
  return behind_links(path).string() + ".partial";
}

WholeFile::WholeFile(std::string path, Part part) : path_(std::move(path)) {
  if (path_ == "-") {
    fd_ = STDOUT_FILENO;
    owned_ = false;
    return;
  }
  struct stat now {};
  const bool there = stat(path_.c_str(), &now) == 0;
  if (there && S_ISDIR(now.st_mode)) fail(EISDIR);
  if (there && !S_ISREG(now.st_mode)) {
    fd_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) fail(errno);
    return;
  }
  target_ = behind_links(path_).string();
  if (there && is_mounted(target_) && access(target_.c_str(), W_OK) != 0) fail(errno);
  const mode_t mode = there ? now.st_mode & 07777 : mode_of_new_files();
  int reason = part == Part::kPartial ? open_partial(mode) : open_part(target_, mode);
  if (there && may_not_be_replaced(reason) && access(target_.c_str(), W_OK) == 0) {
    std::error_code none;
    const fs::path folder = fs::temp_directory_path(none);
    is_beside_ = false;
    if (!none)
      reason = open_part((folder / fs::path(target_).filename()).string(), S_IRUSR | S_IWUSR);
  }
  if (reason != 0) fail(reason);
}

// 0, or why there is none.
int WholeFile::open_part(const std::string& beside, mode_t mode) {
  std::string part = beside + ".XXXXXX";
  const int fd = mkostemp(part.data(), O_CLOEXEC);
  if (fd < 0) return errno;
  if (fchmod(fd, mode) != 0) {
    const int reason = errno;
    unlink(part.c_str());
    close(fd);
    return reason;
  }
  fd_ = fd;
  part_ = part;
  return 0;
}

// 0, or why there is none. Its owner may read and write it, whatever the permissions of the file:
// they are given by commit().
int WholeFile::open_partial(mode_t mode) {
  const std::string part = partial_path(path_);
  int fd = -1;
  do {
    if (fd >= 0) close(fd);
    fd = open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode | S_IRUSR | S_IWUSR);
    if (fd < 0) return errno;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      close(fd);
      if (reason == EWOULDBLOCK)
        throw CliError(kUsage, "[cli] another command writes '" + path_ + "': it has locked " +
                                   part + "; wait for it, or name another file");
      return reason;
    }
    // Whoever had the lock may have renamed or removed the file since it was opened.
  } while (!leads_to(part, fd));
  fd_ = fd;
  part_ = part;
  mode_ = mode;
  partial_ = true;
  return 0;
}

WholeFile::~WholeFile() {
  if (!part_.empty() && !kept_) unlink(part_.c_str());
  if (fd_ >= 0 && owned_) close(fd_);
}

uint64_t WholeFile::size() const {
  struct stat now {};
  if (fstat(fd_, &now) != 0) fail(errno);
  return static_cast<uint64_t>(now.st_size);
}

void WholeFile::cut(uint64_t bytes) {
  if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0 ||
      lseek(fd_, static_cast<off_t>(bytes), SEEK_SET) < 0)
    fail(errno);
}

void WholeFile::read_at(uint64_t offset, char* to, size_t n) const {
  while (n > 0) {
    const ssize_t got = pread(fd_, to, n, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw CliError(kEnvironment, "[cli] cannot read " + part_ + ": " +
                                       (got < 0 ? std::strerror(errno) : "it is too short"));
    to += got;
    offset += static_cast<uint64_t>(got);
    n -= static_cast<size_t>(got);
  }
}

void WholeFile::write(std::string_view bytes) {
  if (unread_ || write_all(fd_, bytes)) return;
  unread_ = !owned_ && errno == EPIPE;
  if (!unread_) fail(errno);
}

void WholeFile::write_at(uint64_t offset, std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n =
        pwrite(fd_, bytes.data() + at, bytes.size() - at, static_cast<off_t>(offset + at));
    if (n > 0)
      at += static_cast<size_t>(n);
    else if (errno != EINTR)
      fail(errno);
  }
}

void WholeFile::commit() {
  if (!owned_) return;
  if (partial_ && fchmod(fd_, mode_) != 0) fail(errno);
  // What the disk has no room for may be told only when a descriptor is closed. With the last one
  // the lock would go, and another command could write what is about to be renamed.
  const int locked = part_.empty() ? -1 : fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (!part_.empty() && locked < 0) fail(errno);
  if (close(std::exchange(fd_, locked)) != 0) fail(errno);
  if (part_.empty()) return;
  if (is_beside_) {
    if (std::rename(part_.c_str(), target_.c_str()) == 0) {
      part_.clear();
      close(std::exchange(fd_, -1));
      return;
    }
    if (!may_not_be_replaced(errno)) fail(errno);
  }
  if (!copy_into(part_, target_)) fail(errno);
  kept_ = false;  // ~WholeFile() removes the part
}

void WholeFile::fail(int reason) const {
  throw CliError(kEnvironment, "[cli] cannot write '" + path_ + "': " + std::strerror(reason));
}

}  // namespace plait::cli
