// The properties that must be equal on all ranks of a job, as texts for error messages.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/plan/plan.hpp"

namespace plait::session {

// Engine, plugins with a hash of their files, every key of the experiment that decides the result,
// the datasets, the plan.
std::vector<std::pair<std::string, std::string>> identity_of(const plan::Plan& plan);

// Of each dataset what tells its content; "" of one of which this rank reads no samples.
std::vector<std::string> contents_of(const plan::Plan& plan);
// The error where ranks that know the content of a dataset know different ones; "": there are none.
std::string differing_contents(const plan::Plan& plan,
                               const std::vector<std::vector<std::string>>& of_ranks);

}  // namespace plait::session
