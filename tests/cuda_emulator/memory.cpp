// Device memory, pinned memory, copies. Device memory is memory of the host between two areas that
// nobody can access: an access far outside ends the process. Of an access close by, a write is
// found by its traces; with the address sanitizer any access ends the process.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/cuda_emulator/asan.hpp"
#include "tests/cuda_emulator/driver.hpp"

namespace emulator {
namespace {

constexpr size_t kPage = 4096, kAlignment = 256, kMemory = size_t{8} << 30;
constexpr size_t kNobodys = 64 * kPage;  // on either side of device memory
// Fresh memory: NaN in every type of floats, -1 in every type of integers.
constexpr unsigned char kFresh = 0xff, kGuard = 0x5a;

size_t rounded(size_t n, size_t to) { return (n + to - 1) / to * to; }

const std::pair<const uintptr_t, Allocation>* holder(uintptr_t p) {
  auto& all = driver().memory;
  auto next = all.upper_bound(p);
  return next == all.begin() ? nullptr : &*--next;
}

// What is left of the page in front of the memory and of the 256 bytes at its end. With the address
// sanitizer there is nothing to look for.
bool guard_intact(uintptr_t start, const Allocation& a) {
  if (kAsan) return true;  // who writes there does not come back
  const auto* data = reinterpret_cast<const unsigned char*>(start);
  const auto* low =
      std::max(data - kAlignment, reinterpret_cast<const unsigned char*>(a.mapping) + kNobodys);
  const auto good = [](unsigned char c) { return c == kGuard; };
  return std::all_of(low, data, good) &&
         std::all_of(data + a.bytes, data + rounded(a.bytes, kAlignment), good);
}

std::string described(uintptr_t start, const Allocation& a) {
  const auto* data = reinterpret_cast<const unsigned char*>(start);
  bool behind = false;
  for (size_t i = a.bytes; i < rounded(a.bytes, kAlignment); ++i) behind |= data[i] != kGuard;
  return "a write " + std::string(behind ? "behind" : "in front of") + " device memory of " +
         std::to_string(a.bytes) + " bytes";
}

}  // namespace

bool in_device(const void* p, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  const auto* a = holder(at);
  return a && at - a->first <= a->second.bytes && bytes <= a->second.bytes - (at - a->first);
}

bool touches_device(const void* p, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  if (bytes == 0) return false;
  const auto* a = holder(at + bytes - 1);
  return a && a->first + a->second.bytes > at;
}

std::string damaged_guard() {
  if (driver().memory.size() > 64) return "";  // looked at when they are freed
  for (const auto& [start, a] : driver().memory)
    if (!guard_intact(start, a)) return described(start, a);
  return "";
}

namespace {

CUresult outside(const char* entry, const char* which, const void* p, size_t bytes) {
  char text[200];
  std::snprintf(text, sizeof text, "%s(): %s %p of %zu bytes is %s", entry, which, p, bytes,
                touches_device(p, bytes)
                    ? "partly outside of device memory or meant to be host memory"
                    : "no device memory");
  return say(CUDA_ERROR_INVALID_VALUE, text);
}

CUresult copy(const char* entry, CUstream stream, void* to, bool to_device, const void* from,
              bool from_device, size_t bytes) {
  if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (to_device ? !in_device(to, bytes) : touches_device(to, bytes))
    return outside(entry, "the destination", to, bytes);
  if (from_device ? !in_device(from, bytes) : touches_device(from, bytes))
    return outside(entry, "the source", from, bytes);
  return submit(stream, [=] {
    if (bytes > 0) std::memmove(to, from, bytes);
    return CUDA_SUCCESS;
  });
}

void* pointer(CUdeviceptr p) { return reinterpret_cast<void*>(p); }

}  // namespace
}  // namespace emulator

using namespace emulator;

CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  ENTER(cuMemAlloc, kContext | kNoCapture);
  Driver& d = driver();
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > kMemory - d.used) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t data = rounded(bytes, kAlignment), pages = rounded(data, kPage);
  Allocation a{nullptr, pages + 2 * kNobodys, bytes};
  void* mapping = mmap(nullptr, a.mapped, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  a.mapping = static_cast<char*>(mapping);
  mprotect(a.mapping, kNobodys, PROT_NONE);
  mprotect(a.mapping + kNobodys + pages, kNobodys, PROT_NONE);
  char* const first = a.mapping + kNobodys;
  char* const start = first + pages - data;
  std::memset(first, kGuard, pages - data);
  std::memset(start, kFresh, bytes);
  std::memset(start + bytes, kGuard, data - bytes);
  forbid(first, pages - data);
  forbid(start + bytes, data - bytes);
  *out = reinterpret_cast<CUdeviceptr>(start);
  d.memory.emplace(*out, a);
  d.used += bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr p) {
  ENTER(cuMemFree, kContext | kNoCapture | kFrees);
  Driver& d = driver();
  if (p == 0) return call.result();
  const auto found = d.memory.find(p);
  if (found == d.memory.end())
    return say(CUDA_ERROR_INVALID_VALUE, "cuMemFree() of what cuMemAlloc() did not return");
  const Allocation a = found->second;
  const bool intact = guard_intact(p, a);
  const std::string damage = intact ? "" : described(p, a);
  d.used -= a.bytes;
  d.memory.erase(found);
  allow(a.mapping, a.mapped);
  munmap(a.mapping, a.mapped);
  if (!intact)
    return fail_for_good(CUDA_ERROR_ILLEGAL_ADDRESS, damage + ", found when it was freed");
  return call.result();
}

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned) {
  ENTER(cuMemHostAlloc, kContext | kNoCapture);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > kMemory) return CUDA_ERROR_OUT_OF_MEMORY;
  void* p = std::aligned_alloc(kPage, rounded(bytes, kPage));
  if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(p, kFresh, bytes);
  forbid(static_cast<char*>(p) + bytes, rounded(bytes, kPage) - bytes);
  driver().pinned.emplace(reinterpret_cast<uintptr_t>(p), bytes);
  *out = p;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* p) {
  ENTER(cuMemFreeHost, kContext | kNoCapture | kFrees);
  if (driver().pinned.erase(reinterpret_cast<uintptr_t>(p)) == 0)
    return say(CUDA_ERROR_INVALID_VALUE, "cuMemFreeHost() of what cuMemHostAlloc() did not return");
  std::free(p);
  return call.result();
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  ENTER(cuMemsetD8Async, kContext);
  if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (!in_device(pointer(to), bytes))
    return outside("cuMemsetD8Async", "the destination", pointer(to), bytes);
  return submit(stream, [=] {
    std::memset(pointer(to), value, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  ENTER(cuMemcpyHtoDAsync, kContext);
  return copy("cuMemcpyHtoDAsync", stream, pointer(to), true, from, false, bytes);
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ENTER(cuMemcpyDtoHAsync, kContext);
  return copy("cuMemcpyDtoHAsync", stream, to, false, pointer(from), true, bytes);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ENTER(cuMemcpyDtoDAsync, kContext);
  return copy("cuMemcpyDtoDAsync", stream, pointer(to), true, pointer(from), true, bytes);
}

// Ordinary memory of the host is unknown to the driver.
CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr p) {
  ENTER(cuPointerGetAttribute, kContext);
  if (attribute != CU_POINTER_ATTRIBUTE_MEMORY_TYPE) return CUDA_ERROR_INVALID_VALUE;
  const auto& pinned = driver().pinned;
  auto next = pinned.upper_bound(p);
  const bool host = next != pinned.begin() && p - (--next)->first < next->second;
  if (!host && !in_device(pointer(p), 1)) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<CUmemorytype*>(out) = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  return CUDA_SUCCESS;
}
