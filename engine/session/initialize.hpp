// How parameters start: a pure function of (seed, parameter name, element index).
#pragma once

#include <cstdint>

#include "engine/plan/plan.hpp"

namespace plait::session {

// Writes elements [first, first + n) of the global tensor, row-major, as values of `dtype` to
// `out`, on `threads` threads. Any rank that holds a part asks for its part; the values depend
// neither on the part nor on the threads. Errors: PLAIT_ERR_PLUGIN for an initialiser that is none
// of PLAIT_INIT_*, PLAIT_ERR_IO where no thread can be started.
void initialize(const plan::Parameter& parameter, uint64_t seed, int64_t first, int64_t n,
                uint32_t dtype, void* out, uint32_t threads = 1);

}  // namespace plait::session
