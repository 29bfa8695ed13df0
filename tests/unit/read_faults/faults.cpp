#include "tests/unit/read_faults/faults.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string_view>

namespace {

using faults::Kind;

std::mutex mutex;
struct Plan {
  std::string folder;
  Kind kind = Kind::kError;
  int number = 0;
  int64_t left = 0;  // calls until one fails; 0: none
  std::string failed;
};
constexpr int kMostFds = 1024;
// Libraries open and close files before and after the objects of this file live.
Plan& plan() {
  static Plan& one = *new Plan;
  return one;
}
// The watched file that it is open on.
std::string& file_of(int fd) {
  static auto& all = *new std::array<std::string, kMostFds>;
  return all.at(static_cast<size_t>(fd));
}

enum class Call { kOpen, kStat, kRead, kList, kMap, kClose };

bool concerns(Call call) {
  if (plan().kind == Kind::kClose) return call == Call::kClose;
  if (call == Call::kClose) return false;
  if (plan().kind == Kind::kError) return true;
  return call == Call::kRead || (plan().kind == Kind::kInterrupted && call == Call::kOpen);
}

bool watched(std::string_view path) {
  return !plan().folder.empty() && path.starts_with(plan().folder);
}

// Whether this call is the one that fails.
bool fails_at(Call call, const std::string& path) {
  if (path.empty() || plan().left == 0 || !concerns(call) || --plan().left > 0) return false;
  plan().failed = path;
  errno = plan().kind == Kind::kInterrupted ? EINTR : plan().number;
  return true;
}

bool fails(Call call, const char* path) {
  const std::lock_guard lock(mutex);
  return watched(path) && fails_at(call, path);
}
bool fails(Call call, int fd) {
  const std::lock_guard lock(mutex);
  return fd >= 0 && fd < kMostFds && fails_at(call, file_of(fd));
}

// Whether there is anything to read at `at`.
bool is_end(int fd, off_t at) {
  struct stat s {};
  return syscall(SYS_fstat, fd, &s) == 0 && at >= s.st_size;
}

// The kind decides how a read fails: false: not at all.
bool read_fails(int fd, off_t at, size_t& n, ssize_t& result) {
  if (is_end(fd, at) || !fails(Call::kRead, fd)) return false;
  if (plan().kind == Kind::kPart) {
    n = n > 1 ? n / 2 : n;
    return false;
  }
  result = plan().kind == Kind::kEnd ? 0 : -1;
  return true;
}

template <class F>
F* next(F*, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

namespace faults {

void arm(const std::string& folder, Kind kind, int number, int64_t n) {
  const std::lock_guard lock(mutex);
  plan() = {folder, kind, number, n, ""};
}

std::string disarm() {
  const std::lock_guard lock(mutex);
  plan().left = 0;
  plan().folder.clear();
  return plan().failed;
}

}  // namespace faults

#pragma GCC visibility push(default)  // libraries find them first
extern "C" {

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  const bool reads = (flags & O_ACCMODE) == O_RDONLY;
  if (reads && fails(Call::kOpen, path)) return -1;
  const auto fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (fd >= 0 && fd < kMostFds) {
    const std::lock_guard lock(mutex);
    file_of(fd) = reads && watched(path) ? path : "";
  }
  return fd;
}

int close(int fd) {
  const bool failed = fails(Call::kClose, fd);
  if (fd >= 0 && fd < kMostFds) {
    const std::lock_guard lock(mutex);
    file_of(fd).clear();
  }
  const int number = errno;
  const auto result = static_cast<int>(syscall(SYS_close, fd));
  if (!failed) return result;
  errno = number;
  return -1;
}

ssize_t read(int fd, void* to, size_t n) {
  ssize_t result = 0;
  if (read_fails(fd, lseek(fd, 0, SEEK_CUR), n, result)) return result;
  return syscall(SYS_read, fd, to, n);
}

ssize_t pread(int fd, void* to, size_t n, off_t at) {
  ssize_t result = 0;
  if (read_fails(fd, at, n, result)) return result;
  return syscall(SYS_pread64, fd, to, n, at);
}

int fstat(int fd, struct stat* s) noexcept {
  static auto* const real = next(&fstat, "fstat");
  return fails(Call::kStat, fd) ? -1 : real(fd, s);
}

int stat(const char* path, struct stat* s) noexcept {
  static auto* const real = next(static_cast<int (*)(const char*, struct stat*)>(nullptr), "stat");
  return fails(Call::kStat, path) ? -1 : real(path, s);
}

void* mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) noexcept {
  if (fails(Call::kMap, fd)) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, n, protection, flags, fd, offset));
}

DIR* fdopendir(int fd) {
  static auto* const real = next(&fdopendir, "fdopendir");
  // The descriptor may be a copy, which nobody has opened by a name.
  char link[32], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  path[size > 0 ? size : 0] = '\0';
  return fails(Call::kList, path) ? nullptr : real(fd);
}

}  // extern "C"
#pragma GCC visibility pop
