// The largest block that this thread allocates with operator new.
#pragma once

#include <cstddef>

namespace plait::test {

// While it lives. One at a time on a thread.
class LargestAllocation {
 public:
  LargestAllocation() noexcept;
  ~LargestAllocation();
  LargestAllocation(const LargestAllocation&) = delete;
  LargestAllocation& operator=(const LargestAllocation&) = delete;
  size_t bytes() const noexcept;
};

}  // namespace plait::test
