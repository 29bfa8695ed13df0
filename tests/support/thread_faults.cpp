#include "tests/support/thread_faults.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<int64_t> left{0};  // threads until one fails; 0 and below: none
std::atomic<bool> failed{false};

using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

}  // namespace

namespace plait::test {

void fail_thread(int64_t n) noexcept {
  failed = false;
  left = n;
}

bool thread_has_failed() noexcept { return failed; }

}  // namespace plait::test

#pragma GCC visibility push(default)  // libraries find it first
extern "C" int pthread_create(pthread_t* to, const pthread_attr_t* attributes, void* (*work)(void*),
                              void* argument) noexcept {
  if (left.fetch_sub(1) == 1) {
    failed = true;
    return EAGAIN;
  }
  static auto* const real = reinterpret_cast<Create*>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(to, attributes, work, argument);
}
#pragma GCC visibility pop
