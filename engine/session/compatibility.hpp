// Whether a checkpoint has what a session needs, before any of it is read.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "engine/base/log.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/plan/plan.hpp"

namespace plait::session {

// Errors: PLAIT_ERR_CONFIG naming the layer, or the optimizer, that is not the one that was saved;
// where the states of the optimizer were left out, naming a checkpoint beside it that has them.
void check_compatibility(const plan::Plan& plan, const checkpoint::Checkpoint& c, FileSystem& files,
                         bool parameters_only);
// Warns of parameters that the saved model has and this one lacks, as those of adapters.
void warn_of_unread(const plan::Plan& plan, const checkpoint::Checkpoint& c, Log& log);
// The parameters of a file that are stored as another float type than this session's.
class Conversions {
 public:
  void add(uint32_t stored, uint32_t own) {
    if (stored != own) ++counts_[{stored, own}];
  }
  // One line for each pair of types: a warning where numbers are rounded.
  void log(Log& log, const std::string& path) const;

 private:
  std::map<std::pair<uint32_t, uint32_t>, size_t> counts_;  // of parameters
};
// The same for a checkpoint.
void log_conversions(const plan::Plan& plan, const checkpoint::Checkpoint& c, Log& log);
// Warns of settings that differ from the experiment that the checkpoint was saved with. The present
// ones apply.
void warn_of_differences(const plan::Plan& plan, const checkpoint::RunState& saved,
                         const std::string& path, Log& log);

}  // namespace plait::session
