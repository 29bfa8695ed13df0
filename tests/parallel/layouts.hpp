// How ranks shard a model: every layout that the tests try.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/parallel/ranks.hpp"

namespace parallel {

constexpr int kGlobalBatch = 16;  // of the models in this folder

struct Layout {
  int pipeline = 1, data = 1, tensor = 1, zero = 0;
  std::string schedule = "1f1b";
  int chunks = 1, micro = 4;
  std::string recompute = "none";
  bool sequence = false;

  uint32_t ranks() const { return static_cast<uint32_t>(pipeline * data * tensor); }
  // Buckets so small that even these models have several.
  std::vector<std::string> overrides() const;
  std::string text() const;
};

// All layouts of 1, 2, 4 and 8 ranks, grid by grid: ZeRO where there are replicas, schedules where
// there are stages, for which the model needs at least two layers per rank. The number of
// micro-batches changes from one layout to the next. The tests that run the layouts choose
// recomputation.
std::vector<std::vector<Layout>> grids();
// One of each kind, of up to 4 ranks, for models of blocks and tests that repeat them in several
// types: each axis, ZeRO stages, schedules, recomputation, sequence parallelism.
std::vector<Layout> few_layouts();

// The job on that layout.
JobSpec on(JobSpec job_spec, const Layout& layout);
// What one rank gets in so many steps; it must succeed.
Outcome alone(const JobSpec& job_spec, int steps);

// PLAIT_TEST_SEED, else a random seed; prints it.
std::mt19937 seeded();
// Whether PLAIT_TEST_ALL requests all cases instead of a sample.
bool try_all();

}  // namespace parallel
