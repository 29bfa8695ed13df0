// The trials of a sweep as a table, and the words that name them.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/sweep/trial.hpp"
#include "bindings/cli/sweep/trials.hpp"

namespace plait::cli {

// What a table shows; borrowed.
struct SweepTable {
  const std::vector<SweepAxis>& axes;
  const std::vector<Trial>& trials;
  const std::string& metric;
};

// The values of a trial: "optimizer.learning_rate=0.1 model.width=8"; with short names each key is
// its end that no other has.
std::string words_of_trial(const std::vector<SweepAxis>& axes, const Trial& trial,
                           bool short_names);

// order: indices of trials, the best first. What does not fit the terminal has shorter keys, and
// the reasons of failures below it.
void show_trials(Terminal& t, const SweepTable& s, const std::vector<size_t>& order);

// The command that compares the best: as many as a line of the terminal has room for, for a command
// is never broken. Nothing where fewer than two have begun.
void tell_comparison(Terminal& t, const std::vector<Trial>& trials,
                     const std::vector<size_t>& order);

}  // namespace plait::cli
