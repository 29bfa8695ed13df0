// Experiments and layouts drawn from a seed: any layers, optimizers and grids that go together, one
// model or several, a frozen teacher among them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/parallel/models.hpp"

namespace parallel {

// One draw. The experiment computes in f64; its own [topology] is that of one rank.
struct RandomExperiment {
  uint32_t seed = 0;
  std::string toml;
  std::vector<std::string> layout;  // overrides
  uint32_t ranks = 1;
  // Recompute "budget", with so many times the bytes that are about the least; 0: as `layout` says.
  double budget_factor = 0;
  std::string text() const;  // seed, TOML and layout, for who repeats it
};

// The same seed gives the same draw on every machine. The folder gets the data.
RandomExperiment random_experiment(uint32_t seed, const Folder& folder);

}  // namespace parallel
