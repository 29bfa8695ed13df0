// Checkpoints that are written while steps go on.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "engine/base/files.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/session/control_collectives.hpp"

namespace plait::session {

// Writes this rank's part of a checkpoint; rank 0, which has the writer, commits it when all ranks have done so. Returns its path, on
// every rank. Errors: those of Writer; PLAIT_ERR_IO on every rank, with the texts of those that could not write. [blocks: yes]
std::string write_checkpoint(FileSystem& files, ControlCollectives& collectives,
                             checkpoint::CheckpointWriter* writer,
                             const checkpoint::RunState& state,
                             std::span<const checkpoint::SaveTensor> tensors);

struct SavedCheckpoint {
  int64_t step = 0;
  std::string path;
};

// At most one save under way, on a thread that lives as long as it. Owner thread only.
class BackgroundSaver {
 public:
  BackgroundSaver() = default;
  ~BackgroundSaver();  // waits
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // Nothing may be under way. write: returns the path. Where no thread can be had, it is done in place.
  void start(int64_t step, std::function<std::string()> write);
  // The save has ended, and nobody has waited for it yet. No lock.
  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  // Until nothing is under way. Throws what the save has thrown, once.
  void wait();
  // What was saved since the last call, as far as it was waited for.
  std::optional<SavedCheckpoint> take();

 private:
  void run() noexcept;

  std::function<std::string()> write_;
  SavedCheckpoint at_;        // of the save under way; the thread's until it is joined
  std::exception_ptr error_;  // the same
  bool started_ = false;
  std::atomic<bool> ended_{false};
  std::optional<SavedCheckpoint> saved_;
  std::thread thread_;
};

}  // namespace plait::session
