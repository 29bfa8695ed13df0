// Allocations that fail on request, in every library of the process: malloc and its kin, or operator new under a sanitizer.
#pragma once

#include <cstdint>

namespace faults {

// The n-th allocation of this thread from now on fails (1: the next), and with `for_good` every one after it.
void arm(int64_t n, bool for_good) noexcept;
// Back to normal. Returns how many allocations there were since arm().
int64_t disarm() noexcept;
// Whether one has failed since arm().
bool hit() noexcept;

// Blocks of the whole process that are allocated now.
int64_t live_blocks() noexcept;

}  // namespace faults
