// The batch script with which Slurm trains an experiment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plait::cli {

// Texts are as on a command line, not quoted; numbers of 0 and empty texts leave a line out.
struct BatchScript {
  std::string name;                  // of the job
  std::string about;                 // what it trains, for the first comment
  std::string folder;                // in which it runs
  std::string run_dir;               // of one run; the folder of the runs of several trials
  std::vector<std::string> command;  // plait run FILE ...; without --run-dir and --resume
  // Words that each trial adds, of a job array; empty: one run.
  std::vector<std::vector<std::string>> trials;
  int64_t at_once = 0;  // trials
  int64_t ranks = 1, nodes = 1, ranks_per_node = 0;
  int64_t cpus = 0;         // of each rank
  std::string gpus;         // of each node: N or TYPE:N
  int64_t save_before = 0;  // seconds
  std::string time, partition, account;
  std::vector<std::string> options;  // further ones of sbatch, with their dashes
  std::vector<std::string> before;   // lines of shell
};

// The files of a run directory, beside it: the script, and the output of a job, where %j stands for
// its number, of a job array %A for that of the job and %a for that of the trial.
std::string script_path(const std::string& run_dir);
std::string output_path(const BatchScript& script);

// All of the script. The job is queued again by itself: its ranks save `save_before` seconds
// before the time limit.
std::string script_text(const BatchScript& script);

}  // namespace plait::cli
