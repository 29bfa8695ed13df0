// log/rank-N.calls.json: the collectives of a rank at the time when it failed. The records of all
// ranks of a group, side by side, tell which rank is behind, and in which call. A rank that was
// killed or hangs has none.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/files.hpp"
#include "engine/session/session_context.hpp"

namespace plait::session {

// Replaces the record of this rank: {"schema", "rank", "ranks", "step", "time", "error", "groups":
// [{"group", "backend", "ranks", "finished", "calls": [{"number", "call"}]}]}. finished: the number
// of calls that have ended, null where the device waits for them by itself; calls: those that were
// started last, 16 at most, numbered from 1. No record without a run directory on this machine, or
// without groups. What cannot be written is told in the log. It waits for the disk, so the other
// ranks are told first. Owner thread.
void record_calls(SessionContext& c, std::string_view error) noexcept;

// Removes the records of all ranks of an earlier process, also those that it had not finished.
// folder: the run directory.
void forget_calls(FileSystem& files, const std::string& folder, Log& log) noexcept;

}  // namespace plait::session
