// Counts allocations of this program, all its threads and libraries, except those inside the
// emulated driver.
#pragma once

#include <string>

namespace cuda_emulator {

// Whether they can be counted: a sanitizer has its own malloc().
bool counts_allocations();

// While it lives, allocations are counted.
class Counted {
 public:
  Counted();
  ~Counted();
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  // "0", or their number and the callers of the first one.
  std::string text() const;
};

}  // namespace cuda_emulator
