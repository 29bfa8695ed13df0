#include "plugins/comm/shm/process_monitor.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace plait::comm_shm {
namespace {

int open_process([[maybe_unused]] uint64_t id) {
#ifdef SYS_pidfd_open
  return static_cast<int>(
      syscall(SYS_pidfd_open, static_cast<pid_t>(id), 0));  // closed automatically in children
#else
  return -1;
#endif
}

}  // namespace

uint64_t pid_namespace() {
  struct stat about;
  return stat("/proc/self/ns/pid", &about) == 0 ? about.st_ino : 0;
}

ProcessMonitor::~ProcessMonitor() {
  for (const int fd : fds_)
    if (fd >= 0) close(fd);
}

void ProcessMonitor::record_process(RankState& state) {
  state.process = static_cast<uint64_t>(getpid());
  state.pid_namespace = pid_namespace();
}

void ProcessMonitor::start(File& file, uint32_t rank, uint32_t size) {
  const uint64_t space = pid_namespace();
  fds_.assign(size, -1);
  for (uint32_t r = 0; r < size; ++r) {
    const RankState& state = file.rank_state(r);
    if (r == rank || space == 0 || state.pid_namespace != space ||
        state.process == static_cast<uint64_t>(getpid()))
      continue;
    fds_[r] = open_process(state.process);
  }
}

bool ProcessMonitor::ended(uint32_t rank) const {
  if (rank >= fds_.size() || fds_[rank] < 0) return false;
  pollfd one{fds_[rank], POLLIN, 0};
  return poll(&one, 1, 0) > 0 && (one.revents & POLLIN);
}

}  // namespace plait::comm_shm
