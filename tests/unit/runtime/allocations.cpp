#include "tests/unit/runtime/allocations.hpp"

#include <cstdlib>
#include <new>

namespace {
thread_local bool watched = false;
thread_local size_t largest = 0;
}  // namespace

namespace plait::test {

LargestAllocation::LargestAllocation() noexcept {
  largest = 0;
  watched = true;
}
LargestAllocation::~LargestAllocation() { watched = false; }
size_t LargestAllocation::bytes() const noexcept { return largest; }

}  // namespace plait::test

void* operator new(size_t bytes) {
  if (watched && bytes > largest) largest = bytes;
  if (void* const block = std::malloc(bytes ? bytes : 1)) return block;
  throw std::bad_alloc();
}
// std::stable_sort takes its buffer with this one and frees it with the others.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  if (watched && bytes > largest) largest = bytes;
  return std::malloc(bytes ? bytes : 1);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
