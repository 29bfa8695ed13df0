// Allocations that fail on request, in every library of the process: malloc and its family, or
// operator new under a sanitizer.
#pragma once

#include <cstdint>

namespace faults {

// The n-th allocation of this thread from now on fails (1: the next), and with `for_good` also all
// later ones.
void arm(int64_t n, bool for_good) noexcept;
// Stops the failures. Returns the number of allocations since arm().
int64_t disarm() noexcept;
// Whether an allocation has failed since arm().
bool hit() noexcept;

// Number of allocated blocks of the whole process.
int64_t live_blocks() noexcept;

}  // namespace faults
