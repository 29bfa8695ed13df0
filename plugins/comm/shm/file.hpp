// The shared memory of one group, as one rank holds it: a file without a name (memfd), so that
// nothing is left when the last member ends, however it ends, and the size of /dev/shm is no limit.
// The file grows at its end; a rank maps the new parts on demand. [thread: any]
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "kit/fd.hpp"
#include "plugins/comm/members.hpp"
#include "plugins/comm/shm/layout.hpp"

namespace plait::comm_shm {

std::string in_mib(uint64_t bytes);  // "1.5 MiB"

// What the ranks of this machine share at most.
uint64_t shared_bytes(const plait_comm_needs& needs);
// Throws PLAIT_ERR_IO if no shared memory can be made, PLAIT_ERR_MEMORY if this machine, or the
// control group of this process, has no room for `needs`.
void check_shared_memory(const plait_comm_needs& needs);

class File {
 public:
  // Rank 0: creates a file with a zeroed control block.
  explicit File(const comm_support::Members& members);
  // The other ranks, with rank 0's file and the group's key. Throws PLAIT_ERR_PEER if it does not
  // belong to this group.
  File(const comm_support::Members& members, kit::Fd fd, std::string_view key);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_.get(); }
  std::string_view key() const { return {control().key, kKeyBytes}; }
  Control& control() const { return *reinterpret_cast<Control*>(control_); }
  RankState& rank_state(uint32_t rank) const {
    return reinterpret_cast<RankState*>(control_ + kRankStatesAt)[rank];
  }
  // Offset in the file of ring `index` of a rank; 0: not allocated yet.
  Count& directory(uint32_t rank, uint32_t index) const {
    return reinterpret_cast<Count*>(
        control_ + directory_at(members_.size))[rank * directory_width(members_.size) + index];
  }

  // Allocates `bytes`, a multiple of kGranularity, at the end of the file and returns their offset.
  // The memory is zero and reserved. Throws PLAIT_ERR_MEMORY.
  uint64_t grow(uint64_t bytes);
  // Likewise, for tensors: on the largest pages that the machine provides.
  uint64_t grow_for_tensors(uint64_t bytes);
  // Returns memory that only this rank knows of to the system.
  void give_back(uint64_t at, uint64_t bytes) noexcept;
  // Address of bytes [at, at + bytes) of the file, multiples of kGranularity; always the same for
  // the same `at`. Throws PLAIT_ERR_PEER if the file is shorter.
  char* map(uint64_t at, uint64_t bytes);

 private:
  void reserve(uint64_t at, uint64_t bytes);
  void punch(uint64_t at, uint64_t bytes) const noexcept;
  void take_back(uint64_t before, uint64_t end) noexcept;
  char* try_map(uint64_t at, uint64_t bytes) const;
  [[noreturn]] void fail_system(const std::string& what, int error) const;
  struct Extent {
    char* address;
    uint64_t bytes;
  };
  void unmap() noexcept;

  const comm_support::Members& members_;
  const kit::Fd fd_;
  char* control_ = nullptr;
  std::mutex mutex_;
  std::map<uint64_t, Extent> extents_;  // by offset; guarded by the lock
};

}  // namespace plait::comm_shm
