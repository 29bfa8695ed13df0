// A job that dies is started again, from the newest checkpoint of its run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bindings/cli/launch/local.hpp"
#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// Runs the job, and again up to `most` times while its outcome is one that another start may change
// (JobOutcome::may_pass). The wait before each is twice as long as the one before it, from a second
// to a minute. `job.command` becomes that of the newest start. Each restart is told, and recorded
// in the run directory (kRestarts). Returns the last outcome.
JobOutcome run_with_restarts(LocalJob& job, int64_t most, Terminal& terminal);

// The command line of a further start: of that run directory, from its newest checkpoint, if there
// is one. words: plait run ....
std::vector<std::string> resuming(std::vector<std::string> words, const std::string& run_dir);

}  // namespace plait::cli
