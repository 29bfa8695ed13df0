// Memory of the device `async`: addresses that nobody can touch, each with memory behind it that
// only the device's threads use.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace async_device {

// Any thread. Errors are exceptions of plait::fail().
class Memory {
 public:
  Memory() = default;
  // From now on alloc() gives memory that the host can touch.
  void make_visible() { visible_ = true; }
  ~Memory();  // of what was not freed, says so and ends the process
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* alloc(uint64_t bytes);
  void free(void* address) noexcept;
  void* pinned_alloc(uint64_t bytes);
  void pinned_free(void* address) noexcept;

  // What lies behind `bytes` bytes of the device's memory. `what` needs it.
  char* behind(const void* address, uint64_t bytes, const char* what) const;
  // Whether it begins in memory of the device; whether all of it is pinned memory of the host.
  bool is_device(const void* address) const;
  bool is_pinned(const void* address, uint64_t bytes) const;

 private:
  struct Block {
    uint64_t bytes, reserved;
    char* behind;
  };
  bool visible_ = false;
  mutable std::mutex mutex_;
  std::map<uintptr_t, Block> device_;
  std::map<uintptr_t, uint64_t> pinned_;
};

}  // namespace async_device
