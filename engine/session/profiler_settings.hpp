// What a session measures, and what comes of it.
#pragma once

#include <cstdint>
#include <string>

#include "engine/plan/entry_point.hpp"

namespace plait::session {

struct ProfileSettings {
  std::string entry_point = plan::kTrainStep;
  std::string dataset = "eval";  // of evaluate
  int64_t runs = 1, warm_up = 0;
  bool trace = false;
};

struct Profile {
  std::string table;  // JSON, of this rank
  std::string trace;  // JSON, of all ranks: only on rank 0, and if it was asked for
};

}  // namespace plait::session
