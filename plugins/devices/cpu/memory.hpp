// Memory of the CPU device: one zeroed mapping per allocation, in huge pages where they pay.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace plait::cpu {

// All live mappings; the destructor unmaps the remaining ones. One thread at a time.
class Memory {
 public:
  explicit Memory(bool huge_pages) : huge_pages_(huge_pages) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Aligned to at least 64 (to a page; to 2 MiB from 4 MiB on). Throws plait::Error
  // (PLAIT_ERR_MEMORY) with the size.
  void* alloc(uint64_t bytes);
  // Ignores pointers that alloc() did not return.
  void free(void* memory) noexcept;

 private:
  bool huge_pages_;
  std::vector<std::pair<void*, uint64_t>> mappings_;
};

}  // namespace plait::cpu
