// Ranks as the verbs see them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bindings/cli/terminal.hpp"

namespace plait::cli {

// Who this process is among the ranks of a job.
struct RankInfo {
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::string source, reason;  // "alone" when nobody has started us as a rank
  bool alone() const { return source == "alone"; }
};
RankInfo rank_info(const Json& job);  // of Job::describe()

// How many ranks an experiment asks for; of Experiment::describe().
int64_t ranks_of(const Json& experiment);

// "on this machine, with 2 cores each" for as many ranks.
std::string cores_for(int64_t ranks);

}  // namespace plait::cli
