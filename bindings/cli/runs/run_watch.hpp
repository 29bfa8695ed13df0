// Runs that are being watched: which there are, and where each stands.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bindings/cli/runs/line_reader.hpp"
#include "bindings/cli/runs/run_record.hpp"

namespace plait::cli {

// The runs below folders. A scan reads the status of a run again only where its file has changed,
// or where it runs: a folder may have ten thousand.
class RunList {
 public:
  struct Run {
    std::string path, name;  // the name: below the folder
    std::string state;       // as read_run() has it
  };
  explicit RunList(std::vector<std::string> folders) : folders_(std::move(folders)) {}
  // Errors: as of find_runs(), and then nothing has changed.
  void scan();
  // Those that run come first, then what was started last.
  const std::vector<Run>& runs() const { return runs_; }
  const std::vector<std::string>& folders() const { return folders_; }
  size_t count(const std::string& state) const;

 private:
  struct Status {
    std::filesystem::file_time_type written;
    std::string state;
  };
  std::string state_of(const std::string& path);

  std::vector<std::string> folders_;
  std::vector<Run> runs_;
  std::map<std::string, Status> known_;  // by path
};

// One run. update() reads what is new of its metrics, and its status if it can have changed.
class WatchedRun {
 public:
  explicit WatchedRun(const std::string& path);
  void update();
  const RunRecord& record() const { return record_; }
  // Averaged as the progress bar's; nan: there is none.
  double loss() const { return values_.average_loss(); }
  // Until its last step; nan: it does not run, or nobody knows.
  double seconds_left() const;

 private:
  LineReader lines_;
  NewestValues values_;
  RunRecord record_;
  std::filesystem::file_time_type written_{};  // status.json, when it was read
};

}  // namespace plait::cli
