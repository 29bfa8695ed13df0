// Memory of the CPU device: one mapping per allocation, zero, in huge pages where they pay.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace plait::cpu {

// All live mappings; what is left is unmapped by the destructor. One thread at a time.
class Memory {
 public:
  explicit Memory(bool huge_pages) : huge_pages_(huge_pages) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // At least 64-aligned (a page; 2 MiB from 4 MiB on). Throws plait::Error (PLAIT_ERR_MEMORY) with the size.
  void* alloc(uint64_t bytes);
  // Ignores what alloc() did not return.
  void free(void* memory) noexcept;

 private:
  bool huge_pages_;
  std::vector<std::pair<void*, uint64_t>> mappings_;
};

}  // namespace plait::cpu
