// The commits of a folder in the order in which they came, which is not always that of their steps: who goes on from an older
// step starts a new lineage, and what an older lineage saved beyond that step is stale.
#pragma once

#include <string>
#include <vector>

#include "engine/checkpoint/store.hpp"

namespace plait::checkpoint {

struct Commit : CheckpointName {
  bool readable = false;  // its manifest is whole; else nothing below is known
  bool stale = false;     // a later lineage went on from before its step
  int64_t number = 0;     // counts commits of the folder from 1; 0: of an engine that did not count
  std::string lineage;
  int64_t from = 0;  // the step at which its lineage begins
};

// By name alone, unsorted. Empty when the folder is absent.
std::vector<CheckpointName> checkpoint_names(FileSystem& files, const std::string& folder);
// From the manifests. Never fails because of a damaged one.
std::vector<Commit> read_commits(FileSystem& files, const std::string& folder);
// What to open first: the current ones by step, the unreadable among them so that they are not passed over in silence, then the
// stale, latest first.
void sort_newest_first(std::vector<Commit>& commits);
// What to keep first: the current ones by step, the stale, latest first, then the unreadable.
void sort_for_retention(std::vector<Commit>& commits);

}  // namespace plait::checkpoint
