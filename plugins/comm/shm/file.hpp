// The file in shared memory (/dev/shm) of one group, as one rank holds it. It has a name only until
// all members have opened it, so nothing is left when the last member ends, however it ends. The
// file grows at its end; a rank maps the new parts on demand. [thread: any]
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "plugins/comm/members.hpp"
#include "plugins/comm/shm/layout.hpp"

namespace plait::comm_shm {

std::string in_mib(uint64_t bytes);  // "1.5 MiB"

// Throws PLAIT_ERR_IO if no file can be made in /dev/shm, PLAIT_ERR_MEMORY if it has no room for
// `needs`.
void check_shared_memory(const plait_comm_needs& needs);

class File {
 public:
  // Rank 0: creates a file with a zeroed control block.
  explicit File(const comm_support::Members& members);
  // The other ranks: opens the file. Throws PLAIT_ERR_PEER if it does not belong to this group.
  File(const comm_support::Members& members, const std::string& name);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& name() const { return name_; }
  void unlink() noexcept;  // removes the name; may be called again
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
  // Free space of /dev/shm in bytes.
  uint64_t free_bytes() const;
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
  void close() noexcept;

  const comm_support::Members& members_;
  std::string name_;
  bool named_ = true;
  int fd_ = -1;
  char* control_ = nullptr;
  std::mutex mutex_;
  std::map<uint64_t, Extent> extents_;  // by offset; guarded by the lock
};

}  // namespace plait::comm_shm
