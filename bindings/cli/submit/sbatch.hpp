// Slurm's command sbatch.
#pragma once

#include <string>

namespace plait::cli {

struct SubmittedJob {
  std::string id, cluster;  // cluster: "" where there is one alone
  std::string warnings;     // what sbatch said beside it
};

// Errors: CliError (kEnvironment) where there is no sbatch on the PATH. instead: what to do then.
void check_sbatch(const std::string& instead);
// Gives it the script. Errors: CliError (kFailed) with the words of sbatch.
SubmittedJob sbatch(const std::string& script);

}  // namespace plait::cli
