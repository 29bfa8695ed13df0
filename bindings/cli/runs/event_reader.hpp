// What a run writes into its metrics.ndjson beside its steps, while it runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

class EventReader {
 public:
  // From the end of the file on, as it is now; a run that is resumed has one.
  explicit EventReader(const std::string& run_dir);
  // The lines of evaluations and checkpoints since the last call, with `run_dir` in place of the
  // name in `run`, as in other events of a command. Whole lines only; none if the file cannot be
  // read.
  std::vector<Json> next();

 private:
  std::string run_dir_, path_;
  int64_t at_ = 0;  // bytes read
};

}  // namespace plait::cli
