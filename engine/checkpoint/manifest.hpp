// MANIFEST.json: what a checkpoint directory holds, with checksums. A directory without a valid one does not exist.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/hash.hpp"

namespace plait::checkpoint {

// What messages about damage end with.
constexpr char kDamageHint[] =
    "; use another checkpoint: a run directory stands for the newest one that is whole";

constexpr int64_t kFormatVersion = 1;
constexpr uint64_t kMaxManifestBytes = 256u << 20;
inline constexpr char kManifestName[] = "MANIFEST.json";

// The rank grid that wrote the checkpoint. A reader with another grid reads the same global tensors.
struct WriterGrid {
  int64_t data = 1, tensor = 1, pipeline = 1;
};

// What a run needs, besides tensors, to go on as if it had never stopped.
struct RunState {
  int64_t step = 0;     // optimizer steps done
  int64_t samples = 0;  // samples seen
  WriterGrid world;
  uint64_t seed = 0;                       // of the run
  int64_t random_step = 0;                 // counter of the random streams
  std::map<std::string, int64_t> cursors;  // per loader: index of the next batch
  std::string config_hash;                 // of parameters and groups; for whoever looks
  std::map<std::string, std::string>
      settings;  // what decides the result, and its values: the session says what has changed since
  std::string engine_version;
  std::string extra = "{}";  // a JSON object: schedules, loss scale, early stopping, plugin states
  std::string
      lineage;  // one without an interruption: each start, resume and load begins another; "": not known
  int64_t lineage_from = 0;  // the step at which that was
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

struct Manifest {
  RunState state;
  int64_t commit =
      0;  // counts the commits of a folder from 1, so that their order does not hang on steps; 0: not counted
  std::vector<FileRecord> files;
  std::vector<TensorRecord> tensors;  // by name
  const TensorRecord* find(std::string_view name) const;
};

// What the slices of a tensor must be and are not: inside of it, without overlaps, together all of it. nullptr: they are.
const char* slices_error(const TensorRecord& tensor);

// A JSON text that ends in a checksum of itself.
std::string manifest_text(const Manifest& manifest);
// Errors: PLAIT_ERR_DATA for damaged or malformed text; PLAIT_ERR_UNIMPLEMENTED for an intact manifest of a newer format.
Manifest parse_manifest(std::string_view text, const std::string& where);
// The same for one rank's part of a manifest to be: its slices need not make whole tensors.
Manifest parse_shard(std::string_view text, const std::string& where);

// The end of a manifest: closes the JSON object `body` leaves open, with the checksum of `body`.
std::string seal_manifest(std::string body);
// The other way: `text` without its end. Errors: PLAIT_ERR_DATA when the checksum is missing or does not match.
std::string_view unseal_manifest(std::string_view text, const std::string& where);

}  // namespace plait::checkpoint
