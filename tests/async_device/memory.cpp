#include "tests/async_device/memory.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <plait/plugin.hpp>
#include <string>

namespace async_device {
namespace {

constexpr uint64_t kPage = 4096, kMost = uint64_t{1} << 40;

uint64_t whole_pages(uint64_t bytes) { return (bytes / kPage + 1) * kPage; }

[[noreturn]] void no_memory(const char* what, uint64_t bytes) {
  plait::fail(PLAIT_ERR_MEMORY, std::string("[async] no ") + what + " for " +
                                    std::to_string(bytes) + " bytes; use a smaller batch or model");
}

// A function that cannot fail was called wrongly: the test must not go on.
[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "[async] %s\n", what);
  std::abort();
}

void* map(uint64_t bytes, int protection) {
  void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

std::string at(const void* address, uint64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "%p (%lu bytes)", address, static_cast<unsigned long>(bytes));
  return text;
}

}  // namespace

Memory::~Memory() {
  if (!device_.empty()) die("the device was closed before its memory was freed");
  if (!pinned_.empty()) die("the device was closed before its pinned memory was freed");
}

void* Memory::alloc(uint64_t bytes) {
  if (bytes >= kMost) no_memory("memory", bytes);
  const uint64_t reserved = whole_pages(bytes);
  void* const address = map(reserved, visible_ ? PROT_READ | PROT_WRITE : PROT_NONE);
  if (!address) no_memory("addresses", bytes);
  void* const behind = visible_ ? address : map(reserved, PROT_READ | PROT_WRITE);
  if (!behind) {
    munmap(address, reserved);
    no_memory("memory", bytes);
  }
  const std::lock_guard lock(mutex_);
  device_[reinterpret_cast<uintptr_t>(address)] = {bytes, reserved, static_cast<char*>(behind)};
  return address;
}

void Memory::free(void* address) noexcept {
  if (!address) return;
  const std::lock_guard lock(mutex_);
  const auto block = device_.find(reinterpret_cast<uintptr_t>(address));
  if (block == device_.end()) die("free() of what alloc() has not given");
  munmap(address, block->second.reserved);
  if (block->second.behind != address) munmap(block->second.behind, block->second.reserved);
  device_.erase(block);
}

void* Memory::pinned_alloc(uint64_t bytes) {
  if (bytes >= kMost) no_memory("pinned memory", bytes);
  void* const memory = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
  if (!memory) no_memory("pinned memory", bytes);
  std::memset(memory, 0, bytes);
  const std::lock_guard lock(mutex_);
  pinned_[reinterpret_cast<uintptr_t>(memory)] = bytes;
  return memory;
}

void Memory::pinned_free(void* address) noexcept {
  if (!address) return;
  const std::lock_guard lock(mutex_);
  if (pinned_.erase(reinterpret_cast<uintptr_t>(address)) == 0)
    die("host_free() of what host_alloc() has not given");
  std::free(address);
}

char* Memory::behind(const void* address, uint64_t bytes, const char* what) const {
  if (visible_) return static_cast<char*>(const_cast<void*>(address));
  const std::lock_guard lock(mutex_);
  const auto where = reinterpret_cast<uintptr_t>(address);
  auto block = device_.upper_bound(where);
  if (block != device_.begin()) {
    --block;
    const uint64_t inside = where - block->first;
    if (inside <= block->second.bytes && bytes <= block->second.bytes - inside)
      return block->second.behind + inside;
  }
  plait::fail(PLAIT_ERR_INVALID, std::string("[async] ") + what + " at " + at(address, bytes) +
                                     " is not in memory of this device");
}

bool Memory::is_device(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto where = reinterpret_cast<uintptr_t>(address);
  auto block = device_.upper_bound(where);
  if (block == device_.begin()) return false;
  --block;
  return where - block->first < block->second.reserved;
}

bool Memory::is_pinned(const void* address, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto where = reinterpret_cast<uintptr_t>(address);
  auto block = pinned_.upper_bound(where);
  if (block == pinned_.begin()) return false;
  --block;
  const uint64_t inside = where - block->first;
  return inside <= block->second && bytes <= block->second - inside;
}

}  // namespace async_device
