// All that a plan decides as lines of text.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan.hpp"

namespace plait::test {

// What `plait plan --json` says, without its programs, and what it leaves out: launches, groups of
// parameters, ranges of indices, merges. An entry of a list has a line of its own.
std::string figures_text(const plan::Plan& plan);

// Those programs, each with its launches' place in the order of a micro-batch.
std::string programs_text(const plan::Plan& plan, const std::vector<std::string>& names);

}  // namespace plait::test
