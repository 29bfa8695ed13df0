// The files of a run: its directory, metrics, events, progress and checkpoints.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/observe/metrics.hpp"
#include "engine/observe/progress.hpp"
#include "engine/observe/run_dir.hpp"
#include "engine/observe/run_lock.hpp"
#include "engine/observe/tensorboard.hpp"
#include "engine/observe/wandb.hpp"
#include "engine/plan/plan.hpp"

namespace plait::session {

struct Settings;

// Owner thread only.
class RunFiles {
 public:
  // Creates a new run directory, or continues `settings.run_dir` if that exists. Takes its lock.
  RunFiles(const plan::Plan& plan, const Settings& settings, FileSystem& files, Log& log);
  RunFiles(const RunFiles&) = delete;
  RunFiles& operator=(const RunFiles&) = delete;

  const observe::RunDir& dir() const { return dir_; }
  observe::NdjsonWriter& metrics() { return metrics_; }
  // statistics.ndjson, made at the first call. from_step: of the run, which may continue an earlier
  // one.
  observe::NdjsonWriter& statistics(int64_t from_step);
  // A value for TensorBoard, and for Weights & Biases where it is wanted. Does not allocate.
  void scalar(std::string_view tag, int64_t step, double unix_seconds, double value) {
    events_.scalar(tag, step, unix_seconds, value);
    write_wandb([&](observe::WandbWriter& to) { to.scalar(tag, step, unix_seconds, value); });
  }
  // Writes what these and metrics() have collected.
  void flush();
  // Used by the saving thread while a save is in flight.
  checkpoint::CheckpointWriter& checkpoints() { return checkpoints_; }
  // Also tells TensorBoard and Weights & Biases how the run ended. That the file cannot be written
  // is a warning.
  void status(const observe::RunStatus& s);
  // The step should write event records: the first 1,000 always, which is as many as TensorBoard
  // keeps, then 20 times a second at most.
  bool event_due(double now);

 private:
  // After an error the run continues without these files.
  template <class Write>
  void write_wandb(Write&& write) {
    if (!wandb_) return;
    try {
      write(*wandb_);
    } catch (const Error& e) {
      end_wandb(e);
    }
  }
  void end_wandb(const Error& e);

  std::unique_ptr<observe::RunLock> lock_;
  observe::RunDir dir_;
  observe::NdjsonWriter metrics_;
  observe::TensorBoardWriter events_;
  std::unique_ptr<observe::WandbWriter> wandb_;  // null unless [wandb] wants it
  std::unique_ptr<observe::NdjsonWriter> statistics_;
  FileSystem& files_;
  checkpoint::CheckpointWriter checkpoints_;
  Log& log_;
  double last_event_ = 0;
  int64_t n_events_ = 0;
  bool status_failed_ = false;
};

// The newest run directory of this experiment that contains a checkpoint; "" if there is none.
std::string newest_run(const plan::Plan& plan, FileSystem& files);

}  // namespace plait::session
