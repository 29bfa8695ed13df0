// How parameters start: a pure function of (seed, parameter name, element index).
#pragma once

#include <cstdint>
#include <span>

#include "engine/plan/plan.hpp"

namespace plait::session {

// Fills elements [first, first + out.size()) of the global tensor, row-major. Any rank that holds a part asks for its part.
void initialize(const plan::Parameter& parameter, uint64_t seed, int64_t first,
                std::span<float> out);

}  // namespace plait::session
