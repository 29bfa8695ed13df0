// Ranks of a job, for the verbs.
#pragma once

#include <nlohmann/json.hpp>
#include <plait/plait.hpp>
#include <string>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// The rank of this process.
struct RankInfo {
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::string source, reason;  // source "alone": not started by a launcher
  bool alone() const { return source == "alone"; }
};
RankInfo rank_info(const Json& job);  // of Job::describe()

// Why processes cannot be the ranks of an experiment, for `plait run` starts processes: its backend
// connects threads. "": they can. values: Experiment::describe().
std::string no_processes_reason(const Engine& engine, const Json& values);

// Number of ranks that an experiment asks for; takes Experiment::describe().
int64_t ranks_of(const Json& experiment);

// "on this machine, with 2 cores each", for that many ranks.
std::string cores_for(int64_t ranks);

}  // namespace plait::cli
