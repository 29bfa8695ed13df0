// Shared by files_posix.cpp and posix_read.cpp: an owned descriptor, and functions that read from
// one.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>

#include "engine/base/files.hpp"

namespace plait::posix {

// PLAIT_ERR_NOT_FOUND for ENOENT, PLAIT_ERR_MEMORY for ENOMEM, else PLAIT_ERR_IO: "[files] cannot
// <what> '<path>': <reason>".
[[noreturn]] void fail_path(const char* what, const std::string& path, int number);

// The same of a file or folder that is to be made, always PLAIT_ERR_IO but for ENOMEM. If something
// about the place is in the way, the reason is that of kit::obstacle().
[[noreturn]] void fail_making(const char* what, const std::string& path, int number);

// Owns a file descriptor and closes it. It is never 0, 1 or 2: what a program whose standard
// streams are closed prints would go to the file.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, const char* what);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  const std::string& path() const { return path_; }
  void close();
  struct stat status() const;
  // PLAIT_ERR_DATA for a pipe, in which a write or read could block.
  void refuse_pipes() const;

 private:
  int fd_ = -1;
  std::string path_;
};

std::unique_ptr<MappedFile> map_file(const std::string& path, uint64_t max_bytes);
std::unique_ptr<InputFile> open_file(const std::string& path, uint64_t max_bytes);
// The content of a regular file, which may be longer than its size says, as in /proc.
// PLAIT_ERR_DATA where it ends earlier.
std::string read_regular(const std::string& path, uint64_t max_bytes);
// The same of any file, from the place at which the descriptor stands.
std::string read_rest(const Descriptor& file, uint64_t max_bytes);

}  // namespace plait::posix
