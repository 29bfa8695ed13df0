// Measures the kernels of some steps, or of some batches of an evaluation.
#pragma once

#include "engine/session/profiler_settings.hpp"
#include "engine/session/session_parts.hpp"

namespace plait::session {

// Steps count as steps of the session, an evaluation leaves no trace. Every rank makes the same
// call. Errors: PLAIT_ERR_NOT_FOUND for an entry point that cannot be measured; as step() and
// evaluate().
Profile profile(SessionParts& parts, const ProfileSettings& settings);

}  // namespace plait::session
