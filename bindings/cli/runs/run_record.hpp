// What the files of a run directory say of the run.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

struct RunRecord {
  std::string path;  // of the directory
  // "running", "done", "failed", "interrupted", "dropped" (of a sweep, by --halving); "lost" when
  // its process is gone without having said so; "unknown" without a readable status.json.
  std::string state = "unknown";
  int64_t step = 0, steps = 0;
  std::string message, checkpoint;     // of a failure; the newest one
  double started = 0, updated = 0;     // Unix seconds, of the newest start and of status.json
  std::string host, device, command;   // of the newest start
  int64_t process = 0;                 // likewise
  std::vector<std::string> overrides;  // "key=value" of the first start
  int64_t restarts = 0;                // by `plait run --max-restarts`
  std::string restarted_for;           // why, the newest time

  // By read_values(): a step's line and the means in it, then the newest evaluation, "eval/loss".
  std::vector<std::pair<std::string, double>> values;
  double seconds = 0;  // since the start, at the newest line of a step
  // Over the newest lines; of a run that has one since its start, since that. 0: not known.
  double steps_per_s = 0;
  int64_t evaluated_at = 0;
};

// The newest values of a run, of the lines of its metrics.ndjson in their order.
class NewestValues {
 public:
  // Adds a line. Returns whether it is one, rather than the beginning of one.
  bool line(std::string_view text);
  // Sets what a RunRecord has by read_values().
  void write_to(RunRecord& run) const;
  // The average of about the newest 50 losses, as the progress bar has it; nan: there is none.
  double average_loss() const;

 private:
  using Values = std::vector<std::pair<std::string, double>>;
  void add_step(const Json& line);
  Values step_, evaluation_;
  double seconds_ = 0, weighted_loss_ = 0, weight_ = 0;
  int64_t at_ = 0, evaluated_at_ = 0, began_at_ = 0;
  std::deque<std::pair<double, int64_t>> recent_;  // Unix seconds and step, since a resume
};
// Enough of the end of metrics.ndjson for NewestValues.
inline constexpr int64_t kNewestBytes = 1 << 16;
// The line of the last evaluation, which may be further from the end; "": there is none.
std::string last_evaluation(const std::string& run);

// In a run directory a line for each restart: {"schema":1,"time":...,"restart":1,"of":3,
// "reason":"..."}.
inline constexpr char kRestarts[] = "restarts.ndjson";

// The name of this machine, as the records have it.
std::string own_host();
// Whether the folder is a run directory, by its files.
bool is_run(const std::string& path);
// Reads status, environment and overrides. Never throws for files that are absent or damaged.
RunRecord read_run(const std::string& path);
// Its state alone, which costs one file unless it runs.
std::string read_state(const std::string& path);
// Writes what became of a run to its status.json, unless that says "done", in place of what its
// processes have left there. None may run. Without effect where the file cannot be written.
void note_state(const std::string& path, const char* state);
// Reads the end of metrics.ndjson. Likewise.
void read_values(RunRecord& run);
// Both, of many runs at once, in the order of the paths.
std::vector<RunRecord> read_runs(const std::vector<std::string>& paths);
// A value of read_values(); nan: there is none.
double value_of(const RunRecord& run, const std::string& name);
// The run directories below a folder, or the one that it is; what was started or resumed last comes
// last. Errors: CliError if the folder does not exist.
std::vector<std::string> find_runs(const std::string& folder);
// The same, with what their order is made of.
struct FoundRun {
  std::filesystem::file_time_type started;
  std::string path;
};
std::vector<FoundRun> find_started(const std::string& folder);
Json record_of(const RunRecord& run);
// In one line, without control characters: what files hold may come from anywhere.
std::string plain(std::string text);
// "2026-11-25 17:44", local time.
std::string time_text(double unix_seconds);
// "45 s", "12 min", "3.5 h", "2.1 d".
std::string duration_text(double seconds);

}  // namespace plait::cli
