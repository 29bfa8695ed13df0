#include "engine/program/arena_offsets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace plait::program;

TEST_CASE(
    "blocks that live together never overlap, and the arena is no smaller than what lives at "
    "once") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<ArenaBlock> blocks(1 + random() % 40);
    for (ArenaBlock& b : blocks) {
      b.bytes = random() % 5000;
      b.first = static_cast<int32_t>(random() % 20);
      b.last = b.first + static_cast<int32_t>(random() % 10);
    }
    const uint64_t peak = assign_offsets(blocks);
    uint64_t lower = 0, sum = 0;
    for (int t = 0; t < 30; ++t) {
      uint64_t live = 0;
      for (const ArenaBlock& b : blocks) live += b.first <= t && t <= b.last ? b.bytes : 0;
      lower = std::max(lower, live);
    }
    for (size_t i = 0; i < blocks.size(); ++i) {
      CHECK(blocks[i].offset % kAlignment == 0);
      CHECK(blocks[i].offset + blocks[i].bytes <= peak);
      sum += blocks[i].bytes;
      for (size_t j = 0; j < i; ++j) {
        const ArenaBlock &a = blocks[i], &b = blocks[j];
        const bool together = a.first <= b.last && b.first <= a.last && a.bytes && b.bytes;
        const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
        if (together) CHECK(apart);
      }
    }
    CHECK(peak >= lower);
    CHECK(peak <= sum);
  }
}

namespace {

// The rule itself: largest first, each at the lowest offset that is free while it is needed.
uint64_t lowest_by_hand(const std::vector<ArenaBlock>& blocks, const std::vector<size_t>& placed,
                        const ArenaBlock& block) {
  std::vector<uint64_t> offsets{0};
  for (const size_t p : placed) offsets.push_back(blocks[p].offset + blocks[p].bytes);
  std::sort(offsets.begin(), offsets.end());
  for (const uint64_t at : offsets)
    if (std::none_of(placed.begin(), placed.end(), [&](size_t p) {
          const ArenaBlock& b = blocks[p];
          return b.bytes > 0 && b.first <= block.last && block.first <= b.last &&
                 at < b.offset + b.bytes && b.offset < at + block.bytes;
        }))
      return at;
  return UINT64_MAX;
}

}  // namespace

TEST_CASE("every block lies at the lowest offset that is free, the largest placed first") {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    std::vector<ArenaBlock> blocks(1 + random() % 80);
    for (ArenaBlock& b : blocks) {
      b.bytes = 64 * (random() % (round % 2 ? 4 : 40));
      b.first = static_cast<int32_t>(random() % 70);
      b.last = b.first + static_cast<int32_t>(random() % (round % 3 ? 8 : 60));
    }
    assign_offsets(blocks);
    std::vector<size_t> order(blocks.size()), placed;
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return blocks[a].bytes != blocks[b].bytes ? blocks[a].bytes > blocks[b].bytes
                                                : blocks[a].first < blocks[b].first;
    });
    for (const size_t i : order) {
      CAPTURE(round);
      if (blocks[i].bytes > 0) CHECK(blocks[i].offset == lowest_by_hand(blocks, placed, blocks[i]));
      placed.push_back(i);
    }
  }
}

TEST_CASE("a chain needs two buffers, whatever its length") {
  std::vector<ArenaBlock> blocks;
  for (int i = 0; i < 50; ++i) blocks.push_back({1024, i, i + 1, 0});
  CHECK(assign_offsets(blocks) == 2048);
}

TEST_CASE("nothing needs nothing") {
  std::vector<ArenaBlock> none;
  CHECK(assign_offsets(none) == 0);
}
