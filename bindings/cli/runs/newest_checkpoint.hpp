// The newest checkpoint of a run, by its files alone.
#pragma once

#include <string>

namespace plait::cli {

// The path of the complete checkpoint in ckpt/ of a run directory that was committed last, as
// plait_checkpoint_list() has it first: by the count of commits that manifests have, which neither
// a copy of the run nor a resume from an older step changes. "" without any. Only the engine, which
// opens it, finds out whether it is intact. Never throws for files that are absent or damaged.
std::string newest_checkpoint(const std::string& run);

}  // namespace plait::cli
