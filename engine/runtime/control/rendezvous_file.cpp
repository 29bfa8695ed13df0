// The rendezvous file on disk. It contains a secret, so its owner and permissions are checked, not
// assumed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/runtime/control/auth.hpp"
#include "engine/runtime/control/rendezvous.hpp"
#include "engine/runtime/control/sockets.hpp"

namespace plait::runtime::control {
namespace {

constexpr size_t kMaxBytes = 4096;
constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;
constexpr mode_t kOthersMay = S_IRWXG | S_IRWXO;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  fail(PLAIT_ERR_IO, "[control] the rendezvous file " + path + ": " + why +
                         "; use a file in a folder that only you may write");
}

void check_folder(const std::string& path) {
  const std::string folder = folder_of(path);
  struct stat info;
  if (stat(folder.c_str(), &info) != 0)
    fail_io("[control] the folder of the rendezvous file, " + folder, errno);
  if (!S_ISDIR(info.st_mode)) refuse(path, folder + " is not a folder");
  if (info.st_uid != geteuid() && info.st_uid != 0)
    refuse(path, "its folder belongs to another user");
  if (info.st_mode & kOthersMayWrite) refuse(path, "others may write its folder");
}

void write_all(int fd, const std::string& path, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) fail_io("[control] cannot write " + path, errno);
    if (n > 0) done += static_cast<size_t>(n);
  }
  while (fsync(fd) != 0)
    if (errno != EINTR) fail_io("[control] cannot write " + path, errno);
}

}  // namespace

RendezvousFile::RendezvousFile(std::string path, const JoinInfo& join_info)
    : path_(std::move(path)) {
  check_folder(path_);
  struct stat info;
  if (lstat(path_.c_str(), &info) == 0 && (!S_ISREG(info.st_mode) || info.st_uid != geteuid()))
    refuse(path_, "another kind of file has that name and is not replaced");
  const std::string fresh =
      join_path(folder_of(path_), "." + name_of(path_) + "." + hex(random_bytes(8)));
  const Fd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) fail_io("[control] cannot make " + fresh, errno);
  try {
    // The umask may have removed permissions.
    if (fchmod(fd.get(), 0600) != 0 || fstat(fd.get(), &info) != 0)
      fail_io("[control] cannot make " + fresh, errno);
    device_ = info.st_dev;
    node_ = info.st_ino;
    std::string text = encode(join_info);
    const kit::WipeAtEnd wipe(text);
    write_all(fd.get(), fresh, text);
    if (rename(fresh.c_str(), path_.c_str()) != 0) fail_io("[control] cannot make " + path_, errno);
  } catch (...) {
    unlink(fresh.c_str());
    throw;
  }
}

RendezvousFile::~RendezvousFile() {
  struct stat info;
  // If another process has replaced the file, it is kept.
  if (lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == node_)
    unlink(path_.c_str());
}

std::optional<JoinInfo> read_rendezvous_file(const std::string& path) {
  check_folder(path);
  // Non-blocking, because it might be a pipe.
  const Fd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd && errno == ENOENT) return std::nullopt;
  if (!fd) fail_io("[control] cannot read the rendezvous file " + path, errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0)
    fail_io("[control] cannot read the rendezvous file " + path, errno);
  if (!S_ISREG(info.st_mode)) refuse(path, "it is not a regular file");
  if (info.st_uid != geteuid()) refuse(path, "it belongs to another user");
  if (info.st_mode & kOthersMay) refuse(path, "others may read or write it");
  std::string text(kMaxBytes, '\0');
  const kit::WipeAtEnd wipe(text);
  const ssize_t n = pread(fd.get(), text.data(), text.size(), 0);
  if (n < 0) fail_io("[control] cannot read the rendezvous file " + path, errno);
  text.resize(static_cast<size_t>(n));
  return decode_join_info(path, text);
}

}  // namespace plait::runtime::control
