#include "engine/program/arena_offsets.hpp"

#include <algorithm>
#include <numeric>

#include "engine/base/checked.hpp"

namespace plait::program {

uint64_t assign_offsets(std::vector<ArenaBlock>& blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Largest first; ties by time, so that the plan is the same on every machine.
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (blocks[a].bytes != blocks[b].bytes) return blocks[a].bytes > blocks[b].bytes;
    return blocks[a].first != blocks[b].first ? blocks[a].first < blocks[b].first : a < b;
  });
  std::vector<size_t> placed;  // by offset
  uint64_t peak = 0;
  for (size_t i : order) {
    ArenaBlock& block = blocks[i];
    block.bytes = checked_round_up(block.bytes, kAlignment, "[program] bytes of a value");
    uint64_t at = 0;
    for (size_t j : placed) {
      const ArenaBlock& other = blocks[j];
      if (other.last < block.first || block.last < other.first) continue;
      if (at + block.bytes <= other.offset) break;  // the gap before it is wide enough
      at = std::max(at, other.offset + other.bytes);
    }
    block.offset = at;
    peak = std::max(peak, checked_add<uint64_t>(at, block.bytes, "[program] bytes of the arena"));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](size_t a, size_t b) { return blocks[a].offset < blocks[b].offset; }),
        i);
  }
  return peak;
}

}  // namespace plait::program
