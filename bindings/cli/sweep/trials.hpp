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
  size_t word = 0;  // index among the words
};

struct SweepSpace {
  std::vector<std::string> words;  // as given: the later one of two that set a key wins
  std::vector<SweepAxis> axes;     // those with several values
};

// "rate=0.1,0.01" has two values; commas inside of brackets and quotes do not separate. Errors:
// CliError for an empty value, and for a key that has several values twice.
SweepSpace sweep_space(const std::vector<std::string>& words);

// How many combinations there are; the greatest number where that has no room.
uint64_t combinations(const std::vector<SweepAxis>& axes);
// Every combination, as overrides "key=value"; the last axis varies fastest.
std::vector<std::vector<std::string>> grid_trials(const std::vector<SweepAxis>& axes);
// `count` different combinations, drawn uniformly by `seed` alone; all of them, in the order of the
// grid, where there are no more. Where combinations() has no room, the last axes alone vary.
std::vector<std::vector<std::string>> random_trials(const std::vector<SweepAxis>& axes,
                                                    uint64_t count, uint64_t seed);
// The words of a trial, each axis with its one value.
std::vector<std::string> words_of(const SweepSpace& space, const std::vector<std::string>& trial);

// The step at which each round of successive halving ends, for runs of `steps` steps: the last one
// is `steps`; each round keeps half of the trials, until one is left.
std::vector<int64_t> halving_rounds(uint64_t trials, int64_t steps);

}  // namespace plait::cli
