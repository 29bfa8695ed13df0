// The open files and sockets of this process.
#pragma once

#include <fcntl.h>

#include <filesystem>
#include <string>
#include <vector>

namespace plait::test {

struct OpenDescriptor {
  int number;
  std::string leads_to;  // a path, or "socket:[123]"
  bool closes_on_exec;   // programs that this process starts do not get it
};

inline std::vector<OpenDescriptor> open_descriptors() {
  std::vector<OpenDescriptor> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string leads_to = std::filesystem::read_symlink(entry.path(), gone);
    const int number = std::stoi(entry.path().filename()), flags = ::fcntl(number, F_GETFD);
    if (!gone && flags >= 0) found.push_back({number, leads_to, (flags & FD_CLOEXEC) != 0});
  }
  return found;
}

// What programs that this process starts would get, beside the standard streams.
inline std::vector<std::string> passed_on() {
  std::vector<std::string> found;
  for (const OpenDescriptor& one : open_descriptors())
    if (one.number > 2 && !one.closes_on_exec) found.push_back(one.leads_to);
  return found;
}

}  // namespace plait::test
