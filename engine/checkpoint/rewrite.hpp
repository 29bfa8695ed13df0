// Writes a checkpoint again as another set of files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/verify.hpp"

namespace plait::checkpoint {

struct RewriteSettings {
  uint32_t shards = 0;           // files of parameters and of states, at most; 0: as the limit asks
  uint64_t max_shard_bytes = 0;  // of tensors in a file; 0: no limit
  bool optimizer = true;         // also the states of the optimizer
};

// What the new checkpoint holds in place of the tensors and the state of the old one.
struct RewrittenTensor {
  const Checkpoint* from = nullptr;
  const TensorRecord* stored = nullptr;
  std::string name;  // in the new one
};
struct NewContent {
  std::vector<RewrittenTensor> tensors;
  RunState state;  // with the experiment
};

struct Rewritten {
  std::vector<std::string> files;  // paths
  uint64_t tensors = 0, bytes = 0;
};

// Writes a checkpoint folder `out` in the newest format with the tensors of `from`, each whole in
// one file, and everything else that `from` holds, so that a run which loads it has the same
// numbers. Folders above `out` are made. It appears complete or not at all, and is durable on
// return. Reads and writes tensors in pieces, and compares their checksums: `from` need not be
// verified.
// tell: called when all is written, before it appears. content: what is written, if that is not
// what `from` has.
// Errors: PLAIT_ERR_INVALID when `out` exists, or for both limits at once; PLAIT_ERR_DATA for
// damage; PLAIT_ERR_IO; those of `progress` and `tell`.
void rewrite_checkpoint(FileSystem& files, const Checkpoint& from, const std::string& out,
                        const RewriteSettings& settings, const Progress& progress,
                        const std::function<void(const Rewritten&)>& tell = {},
                        const NewContent* content = nullptr);

}  // namespace plait::checkpoint
