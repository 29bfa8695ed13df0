// The records of collectives that ranks leave when a run fails (log/rank-N.calls.json), side by
// side.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace plait::cli {

// A group whose members are not all behind the same call.
struct ApartGroup {
  struct Member {
    int rank = 0;
    bool recorded = false;  // else nothing below is known
    uint64_t started = 0;   // the number of its newest call, from 1; 0: none
    std::optional<uint64_t> finished = std::nullopt;  // none where the device waits by itself
    std::string call = {};                            // the newest
  };
  std::string name, backend;
  uint64_t newest = 0;          // the number of the newest call of any member
  std::string call;             // which that is: "all_reduce of 10 f32 (sum)"
  std::vector<Member> members;  // by rank
  uint64_t apart = 0;  // calls between the first member and the last; one more if one is silent
};

// At most four, the ones furthest apart first; none where no rank left a record. Never throws for
// damaged files.
std::vector<ApartGroup> last_calls(const std::string& run);

// A sentence: the newest call, who started it, how far the others are, and who left no record.
std::string text_of(const ApartGroup& group);

// {"group", "backend", "number", "call", "ranks": [{"rank", "started", "finished", "call"}]}: the
// members of a `ranks` entry are null where they are not known.
nlohmann::ordered_json record_of(const ApartGroup& group);

}  // namespace plait::cli
