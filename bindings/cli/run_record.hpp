// What the files of a run directory say of the run.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/terminal.hpp"

namespace plait::cli {

struct RunRecord {
  std::string path;  // of the directory
  // "running", "done", "failed", "interrupted", "aborted"; "lost" when its process is gone without
  // having said so; "unknown" without a readable status.json.
  std::string state = "unknown";
  int64_t step = 0, steps = 0;
  std::string message, checkpoint;     // of a failure; the newest one
  double started = 0, updated = 0;     // Unix seconds, of the newest start and of status.json
  std::string host, device, command;   // of the newest start
  int64_t process = 0;                 // likewise
  std::vector<std::string> overrides;  // "key=value" of the first start

  // By read_values(): a step's line and the means in it, then the newest evaluation, "eval/loss".
  std::vector<std::pair<std::string, double>> values;
  double seconds = 0;      // since the start, at the newest line of a step
  double steps_per_s = 0;  // over the newest lines; 0: not known
  int64_t evaluated_at = 0;
};

// Whether the folder is a run directory, by its files.
bool is_run(const std::string& path);
// Reads status, environment and overrides. Never throws for files that are absent or damaged.
RunRecord read_run(const std::string& path);
// Reads the end of metrics.ndjson. Likewise.
void read_values(RunRecord& run);
// A value of read_values(); nan: there is none.
double value_of(const RunRecord& run, const std::string& name);
// The run directories below a folder, or the one that it is; what was started or resumed last comes
// last. Errors: CliError if the folder does not exist.
std::vector<std::string> find_runs(const std::string& folder);
Json record_of(const RunRecord& run);
// In one line, without control characters: what files hold may come from anywhere.
std::string plain(std::string text);
// "2026-11-25 17:44", local time.
std::string time_text(double unix_seconds);
// "45 s", "12 min", "3.5 h", "2.1 d".
std::string duration_text(double seconds);

}  // namespace plait::cli
