// Where the transient values of a program live: offsets in one arena, planned from when each is first written and last read.
#pragma once

#include <cstdint>
#include <vector>

namespace plait::program {

constexpr uint64_t kAlignment = 64;  // a cache line, and the widest vector

// A block of memory needed from op `first` to op `last`, both included.
struct ArenaBlock {
  uint64_t bytes = 0;
  int32_t first = 0, last = 0;
  uint64_t offset = 0;  // the result
};

// Sets the offsets so that blocks that live at the same time do not overlap; returns the bytes the arena needs.
// Greedy by size (Pisarchyk and Lee 2020, "Efficient Memory Management for Deep Neural Net Inference", section 5.2).
uint64_t assign_offsets(std::vector<ArenaBlock>& blocks);

}  // namespace plait::program
