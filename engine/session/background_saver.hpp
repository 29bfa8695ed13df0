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

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/session/control_collectives.hpp"

namespace plait::session {

// How a save ended, on every rank alike.
struct SavedCheckpoint {
  int64_t step = 0;
  std::string path;
  // It could not be written, for want of space or memory or for a fault of the disk. The
  // checkpoints before it are still there, and the run may go on.
  std::optional<Error> error;
};

// Codes of a save with which the run may go on: the checkpoints before it are still there.
bool is_harmless(uint32_t code);
// Throws its error, as all ranks do.
[[noreturn]] void fail_saving(const SavedCheckpoint& saved);

// Called on rank 0 alone.
using WriterOf = std::function<checkpoint::CheckpointWriter&()>;

// Writes this rank's part of a checkpoint; rank 0, which has the writer, commits it when all ranks
// have written theirs. Throws other errors of CheckpointWriter, on every rank; PLAIT_ERR_PEER when
// another rank has gone. [blocks: yes]
SavedCheckpoint write_checkpoint(FileSystem& files, ControlCollectives& collectives,
                                 const WriterOf& writer, const checkpoint::RunState& state,
                                 std::span<const checkpoint::SaveTensor> tensors);

// At most one save in flight, on a thread with the lifetime of this object. Owner thread only.
class BackgroundSaver {
 public:
  BackgroundSaver() = default;
  ~BackgroundSaver();  // waits
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // No save may be in flight. If no thread can be started, `write` runs in the caller.
  void start(std::function<SavedCheckpoint()> write);
  // The same, always in the caller, whose errors it throws.
  void run(const std::function<SavedCheckpoint()>& write);
  // The save has finished, but wait() has not been called yet. No lock.
  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  // Waits until no save is in flight. Throws the save's exception, once.
  void wait();
  // The newest of the saves since the last call that wait() has completed.
  std::optional<SavedCheckpoint> take();

 private:
  void write() noexcept;

  std::function<SavedCheckpoint()> write_;
  SavedCheckpoint written_;   // by the save in flight; owned by the thread until it is joined
  std::exception_ptr error_;  // likewise
  bool started_ = false;
  std::atomic<bool> ended_{false};
  std::optional<SavedCheckpoint> saved_;
  std::thread thread_;
};

}  // namespace plait::session
