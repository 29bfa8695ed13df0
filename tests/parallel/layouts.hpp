// How ranks share a model: every way that the tests of layouts try.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/parallel/ranks.hpp"

namespace parallel {

constexpr int kGlobalBatch = 16;  // of the models beside this file

struct Layout {
  int pipeline = 1, data = 1, tensor = 1, zero = 0;
  std::string schedule = "1f1b";
  int chunks = 1, micro = 4;
  std::string recompute = "none";

  uint32_t ranks() const { return static_cast<uint32_t>(pipeline * data * tensor); }
  // Parts of so few bytes that even these small models have several.
  std::vector<std::string> overrides() const;
  std::string text() const;
};

// All layouts of 1, 2, 4 and 8 ranks, grid by grid: ZeRO where there are replicas, schedules where there are stages, of which the
// model's layers must be enough for two on each rank. The number of micro-batches changes from one to the next.
// Recomputation is for who runs them.
std::vector<std::vector<Layout>> grids();

// PLAIT_TEST_SEED, else one of its own; says which.
std::mt19937 seeded();
// Whether PLAIT_TEST_ALL asks for everything in place of a sample.
bool try_all();

}  // namespace parallel
