// What checkpoints there are at a place, for people who choose one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/checkpoint/manifest.hpp"

namespace plait::checkpoint {

inline constexpr char kCheckpoints[] = "ckpt";  // the folder of checkpoints in a run directory

// What to do where a place is none that a checkpoint is read from.
inline constexpr char kNameOne[] =
    "; name a run directory, its ckpt/ folder, or a step-... folder or the file best inside";

enum class Condition {
  kComplete,      // manifest and sizes of files are as they should be; contents are not read
  kDamaged,       // `fault` says what is wrong
  kNewerFormat,   // likewise
  kNotCommitted,  // a save that is in progress, or was interrupted; `fault`: what it lacks
};

struct Surveyed {
  std::string path, name, folder;  // of the checkpoint; its last part; the part before it
  Condition condition = Condition::kComplete;
  std::string fault;
  bool unreadable = false;            // the system refused to read it: it may be intact
  bool order_unknown = false;         // likewise its manifest, so it may be the newest
  bool read = false;                  // the manifest; else of what follows only sizes and the step
  bool latest = false, best = false;  // the files `latest` and `best` name it
  bool stale = false;                 // a later lineage continued from before its step
  uint64_t bytes = 0, files = 0;      // of all files in the folder
  int64_t saved_at = 0;               // Unix seconds; of the manifest's file where it does not tell
  uint64_t parameters = 0, states = 0, tensor_bytes = 0;  // tensors
  RunState state;                                         // of a readable manifest
};

enum class PlaceKind { kCheckpoint, kCheckpoints, kRun, kRuns };

struct Survey {
  PlaceKind kind = PlaceKind::kRuns;
  std::vector<Surveyed> checkpoints;  // by folder; in each the one that a run resumes from first
};

// place: a checkpoint, a save that was not finished, one of the files `latest` and `best`, a folder
// of checkpoints, a run directory, or a folder with run directories below it, at most eight levels
// deep; links are not followed, folders that may not be read are passed over. Reads manifests, no
// tensors.
// Errors: PLAIT_ERR_NOT_FOUND if there is no such place; PLAIT_ERR_INVALID for a file that is none
// of those; PLAIT_ERR_IO if it cannot be read.
Survey survey(FileSystem& files, const std::string& place);

// The path of the checkpoint that a call is about: the one that `place` is, or the newest complete
// one of a folder of checkpoints or a run directory. It is not opened.
// Errors: as survey(); PLAIT_ERR_NOT_FOUND where there is none, also for a save that was not
// finished; PLAIT_ERR_DATA where all are damaged; PLAIT_ERR_IO where the system refuses to read
// the newest, or one that may be it: an older one is never chosen instead.
std::string choose_checkpoint(FileSystem& files, const std::string& place);

// For a message: the path of the newest intact checkpoint beside this one that has optimizer
// states, which is read whole; "" where there is none, or none can be found.
std::string newest_with_states(FileSystem& files, const std::string& checkpoint);

// The best evaluation of a run so far, as RunState::extra holds it; metric "": none is recorded.
struct BestValue {
  std::string metric;
  double value = 0;
  int64_t step = -1;
};
BestValue best_value(const RunState& state);

}  // namespace plait::checkpoint
