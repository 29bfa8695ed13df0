#include "plugins/devices/cpu/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <plait/plugin.hpp>

namespace plait::cpu {
namespace {

constexpr uint64_t kPage = 4096, kHugePage = uint64_t{2} << 20, kHugeFrom = uint64_t{4} << 20;

uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

}  // namespace

Memory::~Memory() {
  for (auto [p, size] : mappings_) munmap(p, size);
}

void* Memory::alloc(uint64_t bytes) {
  const bool huge = huge_pages_ && bytes >= kHugeFrom;
  const uint64_t align = huge ? kHugePage : kPage;
  mappings_.reserve(mappings_.size() + 1);
  void* raw = MAP_FAILED;
  errno = ENOMEM;
  uint64_t size = 0;
  if (bytes < (uint64_t{1} << 62)) {
    size = round_up(std::max<uint64_t>(bytes, 1), kPage);
    // Maps extra bytes for the alignment and unmaps the rest.
    raw = mmap(nullptr, size + align - kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
               -1, 0);
  }
  if (raw == MAP_FAILED)
    fail(PLAIT_ERR_MEMORY, "[cpu] no memory for " + std::to_string(bytes) +
                               " bytes: " + std::strerror(errno) +
                               "; use a smaller micro-batch or recomputation");
  auto* first = static_cast<char*>(raw);
  auto* p = reinterpret_cast<char*>(round_up(reinterpret_cast<uintptr_t>(first), align));
  const auto before = static_cast<uint64_t>(p - first), after = align - kPage - before;
  if (before) munmap(first, before);
  if (after) munmap(p + size, after);
  // Only a hint: without it the memory works the same. The end stays in small pages, so that no
  // more memory is used than requested.
  if (huge) madvise(p, size / kHugePage * kHugePage, MADV_HUGEPAGE);
  mappings_.emplace_back(p, size);
  return p;
}

void Memory::free(void* memory) noexcept {
  for (auto& m : mappings_)
    if (m.first == memory) {
      munmap(m.first, m.second);
      m = mappings_.back();
      mappings_.pop_back();
      return;
    }
}

}  // namespace plait::cpu
