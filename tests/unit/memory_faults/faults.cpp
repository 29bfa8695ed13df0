#include "tests/unit/memory_faults/faults.hpp"

#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

struct Plan {
  int64_t seen = 0, fail_at = 0;
  bool armed = false, for_good = false, hit = false;
};
thread_local Plan plan;
std::atomic<int64_t> live{0};

struct Range {
  uintptr_t begin = 0, end = 0;
};
// OpenMP's runtime ends the process if it gets no memory, which the engine cannot prevent, so its
// allocations never fail.
Range openmp;  // written before the first arm()

int find_openmp(dl_phdr_info* info, size_t, void*) {
  if (!info->dlpi_name || !std::strstr(info->dlpi_name, "libgomp")) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
    openmp = {info->dlpi_addr + segment.p_vaddr,
              info->dlpi_addr + segment.p_vaddr + segment.p_memsz};
  }
  return 1;
}

bool fails(const void* caller) noexcept {
  if (!plan.armed) return false;
  const auto at = reinterpret_cast<uintptr_t>(caller);
  if (at >= openmp.begin && at < openmp.end) return false;
  const int64_t n = ++plan.seen;
  if (n != plan.fail_at && !(plan.for_good && n > plan.fail_at)) return false;
  plan.hit = true;
  return true;
}

void* counted(void* block) noexcept {
  if (block) live.fetch_add(1, std::memory_order_relaxed);
  return block;
}

}  // namespace

namespace faults {

void arm(int64_t n, bool for_good) noexcept {
  if (openmp.begin == 0) dl_iterate_phdr(find_openmp, nullptr);
  plan = {0, n, true, for_good, false};
}

int64_t disarm() noexcept {
  plan.armed = false;
  return plan.seen;
}

bool hit() noexcept { return plan.hit; }

int64_t live_blocks() noexcept { return live.load(std::memory_order_relaxed); }

}  // namespace faults

#define FAIL_OR(call)                       \
  if (fails(__builtin_return_address(0))) { \
    errno = ENOMEM;                         \
    return nullptr;                         \
  }                                         \
  return counted(call)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

// The sanitizer replaces malloc, so only the C++ allocations of the process are tested.
namespace {
void* plain_new_or_null(size_t n, size_t align, const void* caller) noexcept {
  if (fails(caller)) return nullptr;
  void* block = nullptr;
  return posix_memalign(&block, align, n ? n : 1) == 0 ? counted(block) : nullptr;
}
void* plain_new(size_t n, size_t align, const void* caller) {
  if (void* block = plain_new_or_null(n, align, caller)) return block;
  throw std::bad_alloc();
}
void plain_delete(void* block) noexcept {
  if (block) live.fetch_sub(1, std::memory_order_relaxed);
  std::free(block);
}
constexpr size_t kAlign = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
}  // namespace

void* operator new(size_t n) { return plain_new(n, kAlign, __builtin_return_address(0)); }
void* operator new[](size_t n) { return plain_new(n, kAlign, __builtin_return_address(0)); }
void* operator new(size_t n, std::align_val_t a) {
  return plain_new(n, static_cast<size_t>(a), __builtin_return_address(0));
}
void* operator new[](size_t n, std::align_val_t a) {
  return plain_new(n, static_cast<size_t>(a), __builtin_return_address(0));
}
void* operator new(size_t n, const std::nothrow_t&) noexcept {
  return plain_new_or_null(n, kAlign, __builtin_return_address(0));
}
void* operator new[](size_t n, const std::nothrow_t&) noexcept {
  return plain_new_or_null(n, kAlign, __builtin_return_address(0));
}
void* operator new(size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return plain_new_or_null(n, static_cast<size_t>(a), __builtin_return_address(0));
}
void* operator new[](size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return plain_new_or_null(n, static_cast<size_t>(a), __builtin_return_address(0));
}
void operator delete(void* p, const std::nothrow_t&) noexcept { plain_delete(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { plain_delete(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { plain_delete(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  plain_delete(p);
}
void operator delete(void* p) noexcept { plain_delete(p); }
void operator delete[](void* p) noexcept { plain_delete(p); }
void operator delete(void* p, size_t) noexcept { plain_delete(p); }
void operator delete[](void* p, size_t) noexcept { plain_delete(p); }
void operator delete(void* p, std::align_val_t) noexcept { plain_delete(p); }
void operator delete[](void* p, std::align_val_t) noexcept { plain_delete(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { plain_delete(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { plain_delete(p); }

#else

extern "C" {

// The C library's own names. NOLINTBEGIN(bugprone-reserved-identifier)
void* __libc_malloc(size_t n);
void* __libc_calloc(size_t n, size_t size);
void* __libc_realloc(void* old, size_t n);
void* __libc_memalign(size_t align, size_t n);
void __libc_free(void* p);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(size_t n) { FAIL_OR(__libc_malloc(n)); }
void* calloc(size_t n, size_t size) { FAIL_OR(__libc_calloc(n, size)); }
void* memalign(size_t align, size_t n) { FAIL_OR(__libc_memalign(align, n)); }
void* aligned_alloc(size_t align, size_t n) { FAIL_OR(__libc_memalign(align, n)); }

int posix_memalign(void** out, size_t align, size_t n) {
  if (fails(__builtin_return_address(0))) return ENOMEM;
  void* block = __libc_memalign(align, n);
  if (!block) return ENOMEM;
  *out = counted(block);
  return 0;
}

void* realloc(void* old, size_t n) {
  if (fails(__builtin_return_address(0))) {
    errno = ENOMEM;
    return nullptr;
  }
  void* block = __libc_realloc(old, n);
  if (!old) return counted(block);
  if (n == 0 && !block) live.fetch_sub(1, std::memory_order_relaxed);
  return block;
}

void free(void* p) {
  if (p) live.fetch_sub(1, std::memory_order_relaxed);
  __libc_free(p);
}

void* mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) {
  if (fails(__builtin_return_address(0))) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, n, protection, flags, fd, offset));
}

}  // extern "C"

#endif
