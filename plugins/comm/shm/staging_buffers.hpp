// Staging buffers: blocks of the shared file that one rank fills and the others read. A rank
// allocates the buffers of its own calls here and maps the buffers of the other ranks.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "plugins/comm/shm/file.hpp"

namespace plait::comm_shm {

// One of this rank's staging buffers.
struct StagingBuffer {
  BufferLocation location;
  uint64_t bytes;
  char* memory;
  StagingHeader& header() const { return *reinterpret_cast<StagingHeader*>(memory); }
  bool free() const { return header().readers == 0; }
};

class StagingBuffers {
 public:
  explicit StagingBuffers(File& file, uint32_t ranks) : file_(file), found_(ranks) {}

  // Returns a free buffer of at least `bytes`; allocates one by growing the file if there is none.
  // Throws PLAIT_ERR_MEMORY. [thread: any]
  StagingBuffer& take(uint64_t bytes);
  // Makes sure that at least one such buffer is free. [thread: any]
  void reserve(uint64_t bytes);
  // Returns a buffer, though other ranks may still be reading it. [thread: any]
  void give_back(StagingBuffer& buffer);
  // The memory of another rank's buffer, of which `bytes` are used. Throws PLAIT_ERR_PEER if no
  // such buffer exists. [thread: any]
  char* find(uint32_t rank, const BufferLocation& location, uint64_t bytes);

 private:
  StagingBuffer& make(uint64_t bytes);

  File& file_;
  std::mutex mutex_;
  // The lock must be held.
  std::deque<StagingBuffer> all_;
  std::vector<StagingBuffer*> free_list_;
  uint64_t extent_ = 0,
           used_ = 0;  // where small staging buffers are allocated; 0: no such extent yet

  struct Found {
    char* memory = nullptr;
    uint64_t bytes = 0;
  };
  std::vector<std::vector<Found>> found_;  // (R, buffers)
};

}  // namespace plait::comm_shm
