// The records of collectives that ranks leave when a run fails (log/rank-N.calls.json), side by
// side.
#pragma once

#include <string>
#include <vector>

namespace plait::cli {

// A sentence for each group whose members are not all behind the same call: the newest call, who
// started it, how far the others are, and who left no record. At most four, of the groups that are
// furthest apart; none where no rank left a record. Never throws for damaged files.
std::vector<std::string> last_calls(const std::string& run);

}  // namespace plait::cli
