#include "plugins/support/steady_file.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace plait::support {
namespace {

int open_file(const char* path) {
  int fd;
  do fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  while (fd < 0 && errno == EINTR);
  return fd;
}
int size_of(int fd, uint64_t& bytes) {
  struct stat s {};
  if (::fstat(fd, &s) != 0) return -1;
  if (!S_ISREG(s.st_mode)) {
    errno = EINVAL;
    return -1;
  }
  bytes = static_cast<uint64_t>(s.st_size);
  return 0;
}
void wait(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// How files on a network fail for a while.
bool passes(int error) {
  return error == ESTALE || error == EIO || error == ETIMEDOUT || error == EREMOTEIO ||
         error == EAGAIN || error == ENOLINK;
}

}  // namespace

const FileCalls& system_calls() {
  static constexpr FileCalls calls{open_file, ::pread, size_of, wait};
  return calls;
}

SteadyFile::SteadyFile(const SourceFile& source, const std::string& hint, const FileCalls& calls)
    : source_(source), calls_(calls) {
  int attempts = 1;
  while (!open()) {
    const int reason = errno;
    if (reason == EINVAL)
      fail(PLAIT_ERR_IO, source_.text() + ": is not a regular file; give the path of a file");
    if (!passes(reason) || attempts == kAttempts)
      fail(reason == ENOENT ? PLAIT_ERR_NOT_FOUND : PLAIT_ERR_IO,
           source_.text() + ": cannot open it" +
               (attempts > 1 ? ", in " + std::to_string(attempts) + " attempts: " : ": ") +
               std::strerror(reason) + "; " + source_.remedy + (hint.empty() ? "" : "; " + hint));
    pause(attempts++);
  }
}

bool SteadyFile::open() {
  fd_ = calls_.open(source_.path.c_str());
  if (fd_ >= 0 && calls_.size(fd_, size_) == 0) return true;
  const int reason = errno;
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  errno = reason;
  return false;
}

// Behind so many attempts.
void SteadyFile::pause(int attempts) const { calls_.wait(std::min(1 << (attempts - 1), 32)); }

SteadyFile::~SteadyFile() {
  if (fd_ >= 0) ::close(fd_);
}

size_t SteadyFile::read_some(uint64_t at, void* to, size_t n) const {
  ssize_t got;
  do got = calls_.pread(fd_, to, n, static_cast<off_t>(at));
  while (got < 0 && errno == EINTR);
  if (got > 0) return static_cast<size_t>(got);
  if (got < 0) {
    if (passes(errno)) return 0;
    fail(PLAIT_ERR_IO, source_.text() + ": cannot read it: " + std::strerror(errno));
  }
  uint64_t now = 0;
  if (calls_.size(fd_, now) == 0 && now < size_)
    source_.bad(at, "the file ended while it was read, " + std::to_string(size_) +
                        " bytes were there before; something else is writing it");
  errno = 0;
  return 0;
}

// Fails silently: the next attempt says why it cannot read.
void SteadyFile::reopen() const {
  const int fresh = calls_.open(source_.path.c_str());
  if (fresh < 0) return;
  uint64_t size = 0;
  const bool same = calls_.size(fresh, size) == 0 && size == size_;
  // Other threads read by the same number meanwhile.
  if (same) ::dup3(fresh, fd_, O_CLOEXEC);
  ::close(fresh);
}

void SteadyFile::read(uint64_t at, void* to, size_t n) const {
  for (int attempt = 0; n > 0;) {
    const size_t got = read_some(at, to, n);
    if (got == 0) {
      const int reason = errno;
      if (++attempt == kAttempts)
        fail(PLAIT_ERR_IO, source_.text() + ", offset " + std::to_string(at) +
                               ": cannot read it, in " + std::to_string(kAttempts) + " attempts: " +
                               (reason ? std::strerror(reason) : "reads are empty") +
                               "; is the file system still there?");
      pause(attempt);
      reopen();
      continue;
    }
    attempt = 0;
    at += got;
    to = static_cast<char*>(to) + got;
    n -= got;
  }
}

}  // namespace plait::support
