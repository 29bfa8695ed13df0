// Memory planning for the transient values of a program: offsets in one arena, from the first write
// and the last read of each value.
#pragma once

#include <cstdint>
#include <vector>

namespace plait::program {

constexpr uint64_t kAlignment = 64;  // a cache line, and the widest vector register

// A block of memory needed from op `first` to op `last`, both inclusive.
struct ArenaBlock {
  uint64_t bytes = 0;
  int32_t first = 0, last = 0;
  uint64_t offset = 0;  // the result
};

// Sets the offsets so that blocks with overlapping lifetimes do not overlap; returns the size of
// the arena in bytes.
// Greedy by size (Pisarchyk and Lee 2020, "Efficient Memory Management for Deep Neural Net
// Inference", section 5.2).
uint64_t assign_offsets(std::vector<ArenaBlock>& blocks);

}  // namespace plait::program
