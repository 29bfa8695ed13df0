// The offline file of Weights & Biases, for `wandb sync`: a LevelDB log of protobuf records.
// Source: wandb/proto/wandb_internal.proto and wandb/sdk/internal/datastore.py of wandb 0.19, whose
// files 0.31 still reads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/files.hpp"

namespace plait::observe {

struct WandbRun {
  std::string id;                      // of the run in its project, for ever
  std::string project, entity, group;  // "": what the client's settings say; no group
  std::string host;
  std::string name;                             // that people read
  std::map<std::string, std::string> settings;  // by name, as TOML writes them
  // Whether an earlier process has written a part of the run: the client then asks the service
  // behind which row this one belongs.
  bool continues = false;
};

// The id with which an earlier process has written this run; "": none has.
std::string wandb_id(FileSystem& files, const std::string& run_dir);
std::string new_wandb_id();

// One file of one process; a process that continues the run writes another one with the same id.
// One thread.
class WandbWriter {
 public:
  // Creates `<run_dir>/wandb/offline-run-<YYYYMMDD_HHMMSS>-<id>/run-<id>.wandb`.
  WandbWriter(FileSystem& files, const std::string& run_dir, const WandbRun& run,
              double unix_seconds);
  ~WandbWriter();  // writes what is collected and ignores errors: call flush() to see them
  WandbWriter(const WandbWriter&) = delete;
  WandbWriter& operator=(const WandbWriter&) = delete;

  // Values of one step become one row, which is written when another step begins. Does not
  // allocate once a row has been written. Errors: PLAIT_ERR_IO.
  void scalar(std::string_view name, int64_t step, double unix_seconds, double value);
  // The last records: the row, and how the run ended.
  void end_of_run(int exit_code, double unix_seconds);
  // Writes the records; a row that may still grow is none yet.
  void flush();
  const std::string& path() const { return path_; }

 private:
  void record(uint32_t number, std::string_view content);
  void log(std::string_view data);
  void run_record(const WandbRun& run);
  void end_row();

  std::unique_ptr<OutputFile> file_;
  bool failed_ = false;
  std::string path_;
  double start_;
  std::string row_;  // items of the history and of the summary, which have the same form
  int64_t step_ = 0;
  double row_time_ = 0;
  std::string content_, record_, buffer_;  // scratch; blocks that are not yet written
  uint64_t size_ = 0;                      // of the file with the buffer
  int64_t n_records_ = 0;
  uint64_t last_write_ = 0;
};

}  // namespace plait::observe
