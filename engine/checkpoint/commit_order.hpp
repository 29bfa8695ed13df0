// The commits of a folder in the order in which they were made, which is not always the order of
// their steps: resuming from an older step starts a new lineage, and checkpoints of the old lineage
// beyond that step are stale.
#pragma once

#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/checkpoint/store.hpp"

namespace plait::checkpoint {

struct Commit : CheckpointName {
  bool readable = false;  // its manifest is intact; else nothing below is known but `refused`
  std::string refused;    // why the system refused to read its manifest, which may be intact; or ""
  bool stale = false;     // a later lineage continued from before its step
  bool states_left_out = false;  // of the optimizer
  // counts commits of the folder from 1; 0: the engine that wrote it did not count
  int64_t number = 0;
  std::string lineage;
  int64_t from = 0;  // the step at which its lineage begins
};

// All checkpoints by name, unsorted. Empty when the folder is absent.
std::vector<CheckpointName> checkpoint_names(FileSystem& files, const std::string& folder);
// Reads the manifests. Never fails because of one that is damaged or that the system refuses to
// read.
std::vector<Commit> read_commits(FileSystem& files, const std::string& folder);
// The order in which to open checkpoints: current ones by step (with unreadable ones among them, so
// that they are reported), then stale ones, latest first.
void sort_newest_first(std::vector<Commit>& commits);
// The order in which to keep checkpoints: current ones by step, then stale ones, latest first, then
// unreadable ones.
void sort_for_retention(std::vector<Commit>& commits);

// Whether an error of reading a checkpoint is one of the machine (no permission, no descriptor, no
// memory, a disk that does not answer): it tells nothing of the checkpoint, which may be intact.
bool is_of_machine(FileSystem& files, const std::string& checkpoint, const Error& e);
// PLAIT_ERR_IO, after such an error: no other checkpoint is taken in place of this one.
// why: what could not be read, and the system's reason.
[[noreturn]] void fail_refused(const std::string& checkpoint, const std::string& why);

}  // namespace plait::checkpoint
