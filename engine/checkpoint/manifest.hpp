// MANIFEST.json: the content of a checkpoint directory, with checksums. A directory without a valid
// manifest is not a checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/hash.hpp"

namespace plait::checkpoint {

// The end of messages about damage.
constexpr char kDamageHint[] =
    "; use another checkpoint: naming a run directory selects its newest intact one";

constexpr int64_t kFormatVersion = 1;
constexpr uint64_t kMaxManifestBytes = 256u << 20;
// Of what counts steps, samples or commits: its sums and products with a batch stay below 2^63.
constexpr int64_t kMaxCount = int64_t{1} << 53;
inline constexpr char kManifestName[] = "MANIFEST.json";
inline constexpr char kExperimentName[] = "run.toml";  // beside the manifest, unless unknown

// The rank grid that wrote the checkpoint. A reader with another grid reads the same global
// tensors.
struct WriterGrid {
  int64_t data = 1, tensor = 1, pipeline = 1;
};

// Weights that a checkpoint of trained parameters alone is loaded beside.
struct BaseRecord {
  std::string model, path;
  Hash128 hash;                         // hash_of_weights()
  std::vector<std::string> parameters;  // that the checkpoint leaves out, sorted
};

// The state, besides tensors, that a run needs to continue as if it had never stopped.
struct RunState {
  int64_t step = 0;     // optimizer steps done
  int64_t samples = 0;  // samples seen
  WriterGrid world;
  uint64_t seed = 0;                       // of the run
  int64_t random_step = 0;                 // counter of the random streams
  std::map<std::string, int64_t> cursors;  // per loader: index of the next batch
  std::string config_hash;                 // hash of parameters and groups; informative
  std::map<std::string, std::string>
      settings;  // values of the settings that decide the result; the session reports changes
  std::string engine_version;
  int64_t saved_at = 0;      // Unix seconds; 0: not known
  std::string extra = "{}";  // a JSON object: schedules, loss scale, early stopping, plugin states
  // id of uninterrupted progress: each start, resume and load begins a new one; "": not known
  std::string lineage;
  int64_t lineage_from = 0;  // the step at which the lineage began
  // The step whose checkpoint is kept as the best one, which may be this one; -1: none. The session
  // also writes it to `extra`; it is not set when a checkpoint is opened.
  int64_t best_step = -1;
  // The experiment with every key, which becomes run.toml beside the manifest; "": none. Not set
  // when a checkpoint is opened.
  std::string experiment;
  std::vector<BaseRecord> bases;  // empty: the checkpoint holds all parameters
  // The optimizer of the run has states, and the checkpoint does not hold them.
  bool states_left_out = false;
};

struct FileRecord {
  std::string name;  // without a folder
  uint64_t size = 0;
  Hash128 hash;
};

// A part of a global tensor, stored under `key` in `file`. Today one slice is the whole tensor.
struct SliceRecord {
  std::string file, key;
  std::vector<int64_t> offset, extent;  // per dimension of the global tensor
  Hash128 hash;
};

struct TensorRecord {
  std::string name;
  uint32_t dtype = 0;
  std::vector<int64_t> shape;  // global
  std::vector<SliceRecord> slices;
};

// Of its elements; 2^64-1 if there are more, which no file holds.
uint64_t tensor_bytes(const TensorRecord& tensor);

struct Manifest {
  int64_t format_version = kFormatVersion;  // as it was read; it is written in the newest
  RunState state;
  // counts the commits of a folder from 1, so that their order does not depend on steps; 0: not
  // counted
  int64_t commit = 0;
  std::vector<FileRecord> files;
  std::vector<TensorRecord> tensors;  // by name
  const TensorRecord* find(std::string_view name) const;
};

// "(4, 3)", in messages.
std::string shape_text(std::span<const int64_t> shape);

// Describes the fault of a tensor's slices, which must lie inside it, must not overlap and must
// cover it. nullptr: no fault.
const char* slices_error(const TensorRecord& tensor);

// JSON text that ends in a checksum of itself.
std::string manifest_text(const Manifest& manifest);
// Errors: PLAIT_ERR_DATA for damaged or malformed text; PLAIT_ERR_UNIMPLEMENTED for an intact
// manifest of a newer format.
Manifest parse_manifest(std::string_view text, const std::string& where);
// That of a checkpoint folder. Errors: likewise, and those of reading it.
Manifest read_manifest(FileSystem& files, const std::string& folder);
// The same for one rank's part of a manifest: its slices need not cover the tensors.
Manifest parse_shard(std::string_view text, const std::string& where);

// Whether the manifest of a folder, as it is now, says that states were left out: a run may take
// them from a checkpoint while that is opened. It is not parsed. false: also where it cannot be
// read.
bool states_left_out(FileSystem& files, const std::string& folder);

// What stands in the manifest of a folder before the lists of files and tensors, which may be long.
// A manifest with a valid checksum has exactly the layout of manifest_text(), so a few values can
// be found in its head without a parser. Errors: of reading it; PLAIT_ERR_DATA for damage.
std::string read_manifest_head(FileSystem& files, const std::string& folder);
// Of such a head.
bool says_states_left_out(std::string_view head);

// Seals a manifest: closes the JSON object that `body` leaves open and appends the checksum of
// `body`.
std::string seal_manifest(std::string body);
// The reverse: `text` without checksum and closing brace. Errors: PLAIT_ERR_DATA when the checksum
// is missing or does not match.
std::string_view unseal_manifest(std::string_view text, const std::string& where);

}  // namespace plait::checkpoint
