// Shared memory of the ranks of one communicator, named by its id.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace nccl_emulator {

constexpr size_t kSlot = 256 << 10;  // bytes that a rank shows the others at a time

// Bytes on their way from one rank to another. Positions count bytes for ever.
struct Ring {
  std::atomic<uint64_t> written{0}, read{0};
};

struct Header {
  std::atomic<uint32_t> joined{0}, left{0};
  std::atomic<uint32_t> arrived{0}, generation{0};  // of the barrier
};

class Segment {
 public:
  // Makes or opens the memory.
  Segment(const std::string& name, uint32_t ranks);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Header& header() const { return *static_cast<Header*>(memory_); }
  char* slot(uint32_t rank) const;
  Ring& ring(uint32_t from, uint32_t to) const;
  char* ring_bytes(uint32_t from, uint32_t to) const;
  size_t ring_size() const { return ring_size_; }
  void unlink() const;

 private:
  const std::string name_;
  const uint32_t ranks_;
  const size_t ring_size_;
  size_t size_ = 0;
  void* memory_ = nullptr;
};

}  // namespace nccl_emulator
