#include "tests/cuda_emulator/session/allocations.hpp"

#include <execinfo.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "tests/cuda_emulator/interface.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define PLAIT_COUNTS 0
#else
#define PLAIT_COUNTS 1
#endif

namespace {

constexpr int kDepth = 16;
std::atomic<bool> armed{false};
std::atomic<long> allocations{0};
void* stack[kDepth];
int depth = 0;

#if PLAIT_COUNTS
void count() noexcept {
  if (!armed.load(std::memory_order_relaxed) || emulator_inside()) return;
  if (allocations.fetch_add(1) > 0) return;
  armed = false;  // backtrace() itself must not be counted
  depth = backtrace(stack, kDepth);
  armed = true;
}
#endif

}  // namespace

#if PLAIT_COUNTS
extern "C" {
// The C library's own names. NOLINTBEGIN(bugprone-reserved-identifier)
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(size_t n) { return count(), __libc_malloc(n); }
void* calloc(size_t n, size_t size) { return count(), __libc_calloc(n, size); }
void* realloc(void* p, size_t n) { return count(), __libc_realloc(p, n); }
void* memalign(size_t align, size_t n) { return count(), __libc_memalign(align, n); }
void* aligned_alloc(size_t align, size_t n) { return count(), __libc_memalign(align, n); }
int posix_memalign(void** out, size_t align, size_t n) {
  count();
  void* p = __libc_memalign(align, n);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}
void* mmap(void* at, size_t n, int protection, int flags, int file, off_t offset) {
  count();
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, n, protection, flags, file, offset));
}
}
#endif

namespace cuda_emulator {

bool counts_allocations() { return PLAIT_COUNTS != 0; }

Counted::Counted() {
  void* warm[1];
  backtrace(warm, 1);  // loads the unwinder, which allocates
  allocations = 0;
  depth = 0;
  armed = true;
}

Counted::~Counted() { armed = false; }

std::string Counted::text() const {
  armed = false;
  std::string all = std::to_string(allocations.load());
  char** const names = backtrace_symbols(stack, depth);
  for (int i = 0; i < depth; ++i) all += std::string("\n  ") + names[i];
  std::free(names);
  return all;
}

}  // namespace cuda_emulator
