// Checkpoint directories: `step-0000001000/` with MANIFEST.json and safetensors files. A checkpoint
// is committed by one rename, so the newest commit is complete at any moment, even after a power
// cut. A second commit of the same step is `step-0000001000.2`. Beside them the files `latest` and
// `best` hold names of checkpoints.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "engine/topology/box.hpp"

namespace plait::checkpoint {

constexpr char kLatest[] = "latest", kBest[] = "best";  // file names

// A tensor to save, or a block of one. Host memory, row-major, borrowed for the call.
struct SaveTensor {
  std::string name;
  uint32_t dtype = 0;
  std::vector<int64_t> shape;  // global
  const void* data = nullptr;
  bool optimizer = false;  // stored in optimizer.safetensors instead of model.safetensors
  std::vector<int64_t> offset = {}, extent = {};  // of the block; empty: the whole tensor
  // In place of `data`: see TensorSource.
  std::function<std::span<const std::byte>()> next = {};
};

// What these take in files of tensors, without the headers.
uint64_t bytes_of(std::span<const SaveTensor> tensors);

struct CheckpointName {
  std::string name;  // of the folder
  int64_t step = 0;
  int64_t revision = 1;
};
struct Commit;  // commit_order.hpp
// "step-0000001000", "step-0000001000.2"; nullopt for any other name.
std::optional<CheckpointName> parse_checkpoint_name(std::string_view name);

// Committed checkpoints in a folder, unverified; empty when the folder is absent. Newest first:
// the current lineage by step, then the stale ones that a resume from an older step left
// behind.
std::vector<CheckpointName> list_checkpoints(FileSystem& files, const std::string& folder);

// Writes checkpoints into one folder. Single-threaded; the run's lock must be held.
class CheckpointWriter {
 public:
  using Check = std::function<void()>;

  // Creates the folder if absent and removes leftovers of an interrupted save (.tmp-*, .trash-*).
  // keep: how many checkpoints remain after a save, besides the best one; 0: all. keep_states: how
  // many of these, the newest ones, keep the states of the optimizer; 0: all.
  CheckpointWriter(FileSystem& files, std::string folder, int keep, Log& log, int keep_states = 0);

  // Writes and commits a checkpoint; returns its path. It is durable on return. Then removes
  // checkpoints beyond `keep`, stale ones before current ones, oldest first, and the states of
  // those beyond `keep_states`; a failure to remove them is only a warning. On error nothing has
  // changed except a leftover `.tmp-*`, removed if possible, and the text says how many bytes were
  // needed if space ran out.
  std::string save(const RunState& state, std::span<const SaveTensor> tensors);
  // Called right before each commit, which it prevents by an exception: this process may have been
  // stopped for long, and the folder belong to another one by now. And behind it, before older
  // checkpoints change.
  void fence(Check check) { fence_ = std::move(check); }

  // The same for several ranks that share the file system. One rank calls begin() and sends the
  // folder to the others; every rank calls write_shard(); then the first rank writes the manifest
  // and publishes the folder as a checkpoint. Errors of write_manifest(): also PLAIT_ERR_DATA when
  // the shards leave a gap or overlap. may_commit: as for fence().
  std::string begin(const RunState& state);
  void write_manifest(const RunState& state, const std::string& folder, int32_t ranks);
  std::string publish(const RunState& state, const std::string& folder,
                      const Check& may_commit = {});
  void discard(const std::string& folder) noexcept;  // if a shard could not be written

 private:
  CheckpointName next_name(const RunState& state) const;
  void write_manifest(const RunState& state, const std::string& folder,
                      std::vector<Manifest> shards);
  void clean();
  bool is_ours() const noexcept;
  bool write_hints(const CheckpointName& committed, const RunState& state);
  std::string find_best(const CheckpointName& committed, const RunState& state) const;
  void retain(const CheckpointName& committed);
  std::vector<Commit> remove_old(const CheckpointName& committed, std::vector<Commit> commits);
  void remove_old_states(const CheckpointName& committed, const std::vector<Commit>& kept);
  FileSystem& files_;
  std::string folder_;
  int keep_, keep_states_;
  Log& log_;
  Check fence_;
  int64_t last_commit_ = -1;  // -1: not read yet. No other process commits while the lock is held.
  // The name of the best checkpoint, in which lineage it was found, and what the file says of it.
  std::string best_, best_lineage_, best_written_;
};

// Removes what write_shard() has written, as far as that goes: the space may be needed.
void discard_shard(FileSystem& files, const std::string& folder, int32_t rank,
                   int32_t ranks) noexcept;

// Writes a rank's shard of a checkpoint into the folder made by begin(): its own files, and a
// record of their content.
void write_shard(FileSystem& files, const std::string& folder, int32_t rank, int32_t ranks,
                 std::span<const SaveTensor> tensors);

// A unique id, for RunState::lineage.
std::string unique_id();

// A verified checkpoint, open for reading. Immutable.
class Checkpoint {
 public:
  // Verifies the manifest, all sizes, and the checksums of every file and tensor. kLater: checksums
  // of a tensor are verified only when it is read; another rank verifies the rest.
  // Errors: PLAIT_ERR_DATA naming the damaged file or tensor; PLAIT_ERR_UNIMPLEMENTED for a newer
  // format; PLAIT_ERR_NOT_FOUND.
  enum class Verify { kNow, kLater };
  Checkpoint(FileSystem& files, std::string path, Verify verify = Verify::kNow);
  const std::string& path() const { return path_; }
  const RunState& state() const { return manifest_.state; }
  const Manifest& manifest() const { return manifest_; }
  const std::vector<TensorRecord>& tensors() const { return manifest_.tensors; }
  const TensorRecord* find(std::string_view name) const { return manifest_.find(name); }
  bool has_file(std::string_view name) const;
  // An open file by its name in the manifest. Errors: PLAIT_ERR_DATA where there is none.
  const SafetensorsFile& file(std::string_view name) const;
  // Copies a whole global tensor after comparing type and shape; is_convertible() types are
  // converted. `out` has room for the tensor as `dtype`; after an error its content is undefined.
  // Errors: PLAIT_ERR_NOT_FOUND with the nearest name; PLAIT_ERR_DATA for another type or shape, or
  // for bytes that have changed.
  void read(const std::string& name, uint32_t dtype, std::span<const int64_t> shape,
            void* out) const;
  // The same for a block of it. Reads only slices that overlap the block.
  void read_block(const std::string& name, uint32_t dtype, std::span<const int64_t> shape,
                  const topology::Box& block, void* out) const;
  // Compares the checksums of a tensor. After it, read_verified() reads blocks without that: the
  // bytes of the block alone, where read_block() reads all of each slice.
  void verify(const std::string& name) const;
  void read_verified(const std::string& name, uint32_t dtype, std::span<const int64_t> shape,
                     const topology::Box& block, void* out) const;

 private:
  void open(FileSystem& files, Verify when);
  // The tensor by its name, of this shape, and convertible to `dtype`.
  const TensorRecord& expect(const std::string& name, uint32_t dtype,
                             std::span<const int64_t> shape) const;
  const TensorRecord& expect(const std::string& name) const;
  // A slice in its file, as the manifest says it is.
  const TensorEntry& entry_of(const TensorRecord& t, const SliceRecord& slice,
                              const SafetensorsFile& stored) const;
  // All bytes of a slice, whose checksum is compared then.
  void each_piece(const TensorRecord& t, const SliceRecord& slice,
                  const std::function<void(const std::byte* piece, size_t size)>& visit) const;
  std::string path_;
  Manifest manifest_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

// The newest valid checkpoint of a folder; NULL if there is none. Each damaged or unfinished
// checkpoint that is skipped is logged as a warning. Errors: PLAIT_ERR_DATA if there are
// checkpoints and all are damaged (the text lists them); PLAIT_ERR_IO if the system refuses to read
// one that may be the newest intact one, PLAIT_ERR_MEMORY, and PLAIT_ERR_UNIMPLEMENTED if that one
// has a newer format: an older one is never used instead.
std::unique_ptr<Checkpoint> open_newest(FileSystem& files, const std::string& folder, Log& log);

// Whether it is one of the files `latest` and `best`, by its name.
bool is_hint(FileSystem& files, const std::string& path);

// Opens a checkpoint folder, one of the files `latest` and `best`, or the newest of a folder of
// checkpoints or of a run directory (with ckpt/ inside).
std::unique_ptr<Checkpoint> open_checkpoint(FileSystem& files, const std::string& path, Log& log);

}  // namespace plait::checkpoint
