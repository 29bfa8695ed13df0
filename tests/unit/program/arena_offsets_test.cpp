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

TEST_CASE("a chain needs two buffers, whatever its length") {
  std::vector<ArenaBlock> blocks;
  for (int i = 0; i < 50; ++i) blocks.push_back({1024, i, i + 1, 0});
  CHECK(assign_offsets(blocks) == 2048);
}

TEST_CASE("nothing needs nothing") {
  std::vector<ArenaBlock> none;
  CHECK(assign_offsets(none) == 0);
}
