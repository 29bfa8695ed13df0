// Whether a checkpoint has what a session needs, before any of it is read.
#pragma once

#include <string>

#include "engine/base/log.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/plan/plan.hpp"

namespace plait::session {

// Errors: PLAIT_ERR_CONFIG naming the layer, or the optimizer, that is not the one that was saved.
void check_compatibility(const plan::Plan& plan, const checkpoint::Checkpoint& c,
                         bool parameters_only);
// Reports that tensors of `path` are stored as another float type than this session's: a warning
// where they are rounded. Nothing if the types are equal.
void log_conversion(Log& log, const std::string& path, uint32_t stored, uint32_t own);
// The same for the parameters of a checkpoint.
void log_conversion(const plan::Plan& plan, const checkpoint::Checkpoint& c, Log& log);
// Warns of settings that differ from the experiment that the checkpoint was saved with. The present
// ones apply.
void warn_of_differences(const plan::Plan& plan, const checkpoint::RunState& saved,
                         const std::string& path, Log& log);

}  // namespace plait::session
