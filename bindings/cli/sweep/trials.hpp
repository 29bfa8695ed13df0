// The trials of a sweep: an experiment with different values of a few keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plait::cli {

// A key with the values that it takes.
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
};

struct SweepSpace {
  std::vector<SweepAxis> axes;         // words with several values, in their order
  std::vector<std::string> overrides;  // all other words
};

// "rate=0.1,0.01" has two values; commas inside of brackets and quotes do not separate. Errors:
// CliError for a word without '=' and for an empty value.
SweepSpace sweep_space(const std::vector<std::string>& words);

// Every combination, as overrides "key=value"; the last axis varies fastest.
std::vector<std::vector<std::string>> grid_trials(const std::vector<SweepAxis>& axes);
// `count` different combinations, drawn uniformly by `seed` alone; all of them, in the order of the
// grid, where there are no more.
std::vector<std::vector<std::string>> random_trials(const std::vector<SweepAxis>& axes,
                                                    uint64_t count, uint64_t seed);

// The step at which each round of successive halving ends, for runs of `steps` steps: the last one
// is `steps`; each round keeps half of the trials, until one is left.
std::vector<int64_t> halving_rounds(uint64_t trials, int64_t steps);

}  // namespace plait::cli
