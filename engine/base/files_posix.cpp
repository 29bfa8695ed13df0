// The POSIX implementation of FileSystem.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/posix_read.hpp"

namespace plait {
namespace {

using posix::Descriptor;
using posix::fail_path;

// Makes a file or folder durable. Where the server of a file system can be interrupted (NFS, FUSE)
// a signal may end the wait: nothing has failed then and nothing is forgotten, so it is made again.
// Any other error is final: the system may have dropped what it could not write.
void sync_fd(int fd, const char* what, const std::string& path) {
  constexpr int kTries = 1000;
  for (int i = 1; ::fsync(fd) != 0; ++i)
    if (errno != EINTR || i == kTries) fail_path(what, path, errno);
}

class PosixOutput final : public OutputFile {
 public:
  PosixOutput(const std::string& path, int flags)
      : file_(path, O_WRONLY | O_CREAT | O_NONBLOCK | flags, "open for writing") {
    file_.refuse_pipes();  // one that somebody reads: else it cannot be opened
  }
  void write(const void* data, size_t size) override {
    put(data, size, [this](const char* p, size_t n, size_t) {
      const ssize_t done = ::write(file_.get(), p, n);
      if (done > 0) written_ += static_cast<uint64_t>(done);
      return done;
    });
  }
  uint64_t written() const override { return written_; }
  void write_at(uint64_t offset, const void* data, size_t size) override {
    put(data, size, [this, offset](const char* p, size_t n, size_t done) {
      return ::pwrite(file_.get(), p, n, static_cast<off_t>(offset + done));
    });
  }
  void sync() override { sync_fd(file_.get(), "make durable", file_.path()); }
  void close() override { file_.close(); }

 private:
  template <class F>
  void put(const void* data, size_t size, F&& write_some) {
    const char* bytes = static_cast<const char*>(data);
    for (size_t done = 0; done < size;) {
      const ssize_t n = write_some(bytes + done, std::min<size_t>(size - done, 1u << 30), done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int number = errno;
        fail_io("[files] cannot write " + human_bytes(size) + " to '" + file_.path() + "'", number);
      }
      done += static_cast<size_t>(n);
    }
  }
  Descriptor file_;
  uint64_t written_ = 0;
};

class PosixLock final : public FileLock {
 public:
  explicit PosixLock(const std::string& path)
      : file_(path, O_RDWR | O_CREAT | O_NONBLOCK, "open the lock") {
    file_.refuse_pipes();
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return;
    if (errno != EWOULDBLOCK) fail_path("lock", path, errno);
    fail(PLAIT_ERR_STATE,
         "[files] '" + path +
             "' is locked by another process; wait for it, or choose another folder");
  }

 private:
  Descriptor file_;
};

class PosixFiles final : public FileSystem {
 public:
  std::unique_ptr<OutputFile> open(const std::string& path, OpenMode mode) override {
    const int flags = mode == OpenMode::kCreate    ? O_EXCL
                      : mode == OpenMode::kReplace ? O_TRUNC
                                                   : O_APPEND;
    return std::make_unique<PosixOutput>(path, flags);
  }
  std::unique_ptr<MappedFile> map(const std::string& path, uint64_t max_bytes) override {
    return posix::map_file(path, max_bytes);
  }
  std::unique_ptr<InputFile> open_input(const std::string& path, uint64_t max_bytes) override {
    return posix::open_file(path, max_bytes);
  }
  std::string read_all(const std::string& path, uint64_t max_bytes) override {
    return posix::read_regular(path, max_bytes);
  }
  std::string read_stream(const std::string& path, uint64_t max_bytes) override {
    return posix::read_rest(Descriptor(path, O_RDONLY, "open"), max_bytes);
  }
  FileInfo info(const std::string& path) override {
    struct stat s {};
    if (::stat(path.c_str(), &s) != 0) {
      if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return {};
      fail_path("examine", path, errno);
    }
    FileInfo info;
    info.kind = S_ISREG(s.st_mode)   ? FileKind::kRegular
                : S_ISDIR(s.st_mode) ? FileKind::kDirectory
                                     : FileKind::kOther;
    info.size = static_cast<uint64_t>(s.st_size);
    info.mode = s.st_mode & 07777;
    info.owner = s.st_uid;
    info.group = s.st_gid;
    info.modified_ns = static_cast<int64_t>(s.st_mtim.tv_sec) * 1'000'000'000 + s.st_mtim.tv_nsec;
    return info;
  }
  bool is_link(const std::string& path) override {
    struct stat s {};
    return ::lstat(path.c_str(), &s) == 0 && S_ISLNK(s.st_mode);
  }
  std::vector<std::string> list(const std::string& folder) override {
    const Descriptor file(folder, O_RDONLY | O_DIRECTORY, "list");
    struct Close {
      void operator()(DIR* d) const { ::closedir(d); }
    };
    const int copy = ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0);
    const std::unique_ptr<DIR, Close> stream(copy < 0 ? nullptr : ::fdopendir(copy));
    if (!stream) {
      const int number = errno;
      if (copy >= 0) ::close(copy);
      fail_path("list", folder, number);
    }
    std::vector<std::string> names;
    while (errno = 0, true) {
      const dirent* entry = ::readdir(stream.get());
      if (!entry) break;
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    if (errno != 0) fail_path("list", folder, errno);
    std::sort(names.begin(), names.end());
    return names;
  }
  void make_folder(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) != 0) posix::fail_making("make the folder", path, errno);
  }
  void remove(const std::string& path) override {
    if (::remove(path.c_str()) != 0) fail_path("remove", path, errno);
  }
  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0)
      fail_path(("rename to '" + to + "' the path").c_str(), from, errno);
  }
  void sync_folder(const std::string& path) override {
    const Descriptor folder(path, O_RDONLY | O_DIRECTORY, "open the folder");
    sync_fd(folder.get(), "make durable the folder", path);
  }
  std::unique_ptr<FileLock> lock(const std::string& path) override {
    return std::make_unique<PosixLock>(path);
  }
  uint64_t free_bytes(const std::string& folder) override {
    struct statvfs s {};
    if (::statvfs(folder.c_str(), &s) != 0) fail_path("examine the space of", folder, errno);
    return static_cast<uint64_t>(s.f_bavail) * s.f_frsize;
  }
  std::string real_path(const std::string& path) override {
    const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr),
                                                               &std::free);
    if (!resolved) fail_path("resolve", path, errno);
    return resolved.get();
  }
};

}  // namespace

FileSystem& FileSystem::posix() {
  static PosixFiles files;  // has no state
  return files;
}

}  // namespace plait
