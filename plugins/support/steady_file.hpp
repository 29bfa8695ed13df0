// A file that is read at any place while a run lasts. On a network file system opening and reading
// may fail for a while, or the handle go stale: both are tried again, a read on the file opened
// anew.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "plugins/support/file_bytes.hpp"

namespace plait::support {

// What a SteadyFile calls; tests put their own here. They set errno, as the system's do.
struct FileCalls {
  int (*open)(const char* path);
  ssize_t (*pread)(int fd, void* to, size_t n, off_t at);
  int (*size)(int fd, uint64_t& bytes);  // -1: failed
  void (*wait)(double seconds);
};
const FileCalls& system_calls();

class SteadyFile {
 public:
  // Attempts to open it, and of one read, with waits of 1, 2, 4, ... seconds between them, at most
  // 32.
  static constexpr int kAttempts = 5;

  // hint: how such a file is made, for a file that cannot be opened; may be empty.
  // Errors: PLAIT_ERR_NOT_FOUND, PLAIT_ERR_IO with the system's reason, after the last attempt.
  SteadyFile(const SourceFile& source, const std::string& hint,
             const FileCalls& calls = system_calls());
  ~SteadyFile();
  SteadyFile(const SteadyFile&) = delete;
  SteadyFile& operator=(const SteadyFile&) = delete;

  uint64_t size() const { return size_; }  // when it was opened
  // Copies bytes [at, at + n). Any thread, several at a time; allocates nothing but for an error.
  // Errors: PLAIT_ERR_IO after the last attempt; PLAIT_ERR_DATA for a file that has become shorter.
  void read(uint64_t at, void* to, size_t n) const;

 private:
  // Bytes that were read, at least 1; 0: worth another attempt, for the reason in errno (0: the
  // read was empty).
  size_t read_some(uint64_t at, void* to, size_t n) const;
  void reopen() const;
  bool open();  // false: the reason is in errno
  void pause(int attempts) const;

  SourceFile source_;
  const FileCalls& calls_;
  int fd_ = -1;  // the number stays: a file opened anew takes its place
  uint64_t size_ = 0;
};

}  // namespace plait::support
