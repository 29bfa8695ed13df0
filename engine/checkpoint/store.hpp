// Checkpoint directories: `step-0000001000/` with MANIFEST.json and safetensors files, committed by one rename, so that at any
// moment, power cut included, the newest commit is whole. A second commit of the same step is `step-0000001000.2`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "engine/topology/box.hpp"

namespace plait::checkpoint {

// A tensor to save, or a block of one. Host memory, row-major, borrowed for the call.
struct SaveTensor {
  std::string name;
  uint32_t dtype = 0;
  std::vector<int64_t> shape;  // global
  const void* data = nullptr;
  bool optimizer = false;  // goes to optimizer.safetensors in place of model.safetensors
  std::vector<int64_t> offset = {}, extent = {};  // of the block; empty: all of the tensor
};

struct CheckpointName {
  std::string name;  // of the folder
  int64_t step = 0;
  int64_t revision = 1;
};
// "step-0000001000", "step-0000001000.2"; nullopt for any other name.
std::optional<CheckpointName> parse_checkpoint_name(std::string_view name);

// Committed checkpoints in a folder, unverified; empty when the folder is absent. Newest first: those of the lineage that was
// last committed to, by step, then those it left behind by going on from an older step.
std::vector<CheckpointName> list_checkpoints(FileSystem& files, const std::string& folder);

// Writes checkpoints into one folder. One thread; the run's lock must be held.
class CheckpointWriter {
 public:
  // Makes the folder if absent and removes what an interrupted save left (.tmp-*, .trash-*).
  // keep: how many checkpoints remain after a save; 0: all.
  CheckpointWriter(FileSystem& files, std::string folder, int keep, Log& log);

  // Writes and commits; returns the path of the new checkpoint, which is durable by then. Others beyond `keep` go after it, the
  // stale before the current ones and the oldest first;
  // failing to remove those is only a warning. On error nothing has changed but a leftover `.tmp-*`, removed if possible,
  // and the text says how many bytes were needed when space ran out.
  std::string save(const RunState& state, std::span<const SaveTensor> tensors);

  // The same by several ranks that share the file system. One rank begins, and tells the others the folder; every rank calls
  // write_shard(); when all have, the first commits. Errors of commit(): also PLAIT_ERR_DATA when the shards leave a gap or overlap.
  std::string begin(const RunState& state);
  std::string commit(const RunState& state, const std::string& folder, int32_t ranks);
  void discard(const std::string& folder) noexcept;  // when a share failed

 private:
  CheckpointName next_name(const RunState& state) const;
  std::string commit(const RunState& state, const std::string& folder,
                     std::vector<Manifest> shards);
  void clean();
  void retain(const CheckpointName& committed);
  FileSystem& files_;
  std::string folder_;
  int keep_;
  Log& log_;
  int64_t last_commit_ = -1;  // -1: not looked yet. Nobody else commits while the lock is held.
};

// A rank's share of a checkpoint, into the folder that begin() made: files of its own, and a record of what is in them.
void write_shard(FileSystem& files, const std::string& folder, int32_t rank, int32_t ranks,
                 std::span<const SaveTensor> tensors);

// An id that nothing else has: for RunState::lineage.
std::string unique_id();

// A verified checkpoint, open for reading. Immutable.
class Checkpoint {
 public:
  // Verifies the manifest, all sizes, and the checksums of every file and tensor; kLater: those of a tensor only when it is read,
  // where another rank verifies the rest.
  // Errors: PLAIT_ERR_DATA naming the damaged file or tensor; PLAIT_ERR_UNIMPLEMENTED for a newer format; PLAIT_ERR_NOT_FOUND.
  enum class Verify { kNow, kLater };
  Checkpoint(FileSystem& files, std::string path, Verify verify = Verify::kNow);
  const std::string& path() const { return path_; }
  const RunState& state() const { return manifest_.state; }
  const std::vector<TensorRecord>& tensors() const { return manifest_.tensors; }
  const TensorRecord* find(std::string_view name) const { return manifest_.find(name); }
  bool has_file(std::string_view name) const;
  // Copies a whole global tensor, after comparing type and shape. `out` holds its bytes; after an error what it holds means nothing.
  // Errors: PLAIT_ERR_NOT_FOUND with the nearest name, PLAIT_ERR_DATA for another type or shape, or bytes changed since.
  void read(const std::string& name, uint32_t dtype, std::span<const int64_t> shape,
            void* out) const;
  // The same for a block of it. Reads the slices that have a part of the block.
  void read_block(const std::string& name, uint32_t dtype, std::span<const int64_t> shape,
                  const topology::Box& block, void* out) const;

 private:
  const SafetensorsFile& file(std::string_view name) const;
  void verify();
  std::string path_;
  Manifest manifest_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

// The newest valid checkpoint of a folder; NULL when there is none at all. Each damaged one passed over is a warning in the
// log. Errors: PLAIT_ERR_DATA when there are checkpoints and every one is damaged (the text lists them); PLAIT_ERR_UNIMPLEMENTED
// when the newest intact one has a newer format: an older one is never taken silently in its place.
std::unique_ptr<Checkpoint> open_newest(FileSystem& files, const std::string& folder, Log& log);

// What a user names with resume: a checkpoint folder, a folder of checkpoints, or a run directory (with ckpt/ inside).
std::unique_ptr<Checkpoint> open_checkpoint(FileSystem& files, const std::string& path, Log& log);

}  // namespace plait::checkpoint
