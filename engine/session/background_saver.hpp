// Writes checkpoints while training continues.
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

// Writes this rank's part of a checkpoint; rank 0, which has the writer, commits it when all ranks
// have written theirs. Returns its path, on every rank. Errors: as CheckpointWriter;
// PLAIT_ERR_IO on every rank, with the errors of the ranks that could not write. [blocks: yes]
std::string write_checkpoint(FileSystem& files, ControlCollectives& collectives,
                             checkpoint::CheckpointWriter* writer,
                             const checkpoint::RunState& state,
                             std::span<const checkpoint::SaveTensor> tensors);

struct SavedCheckpoint {
  int64_t step = 0;
  std::string path;
};

// At most one save in flight, on a thread with the lifetime of this object. Owner thread only.
class BackgroundSaver {
 public:
  BackgroundSaver() = default;
  ~BackgroundSaver();  // waits
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // No save may be in flight. write: returns the path. If no thread can be started, it runs in the
  // caller.
  void start(int64_t step, std::function<std::string()> write);
  // The save has finished, but wait() has not been called yet. No lock.
  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  // Waits until no save is in flight. Throws the save's exception, once.
  void wait();
  // The saves since the last call that wait() has completed.
  std::optional<SavedCheckpoint> take();

 private:
  void run() noexcept;

  std::function<std::string()> write_;
  SavedCheckpoint at_;        // of the save in flight; owned by the thread until it is joined
  std::exception_ptr error_;  // likewise
  bool started_ = false;
  std::atomic<bool> ended_{false};
  std::optional<SavedCheckpoint> saved_;
  std::thread thread_;
};

}  // namespace plait::session
