// Checks of compiled programs, beside the checks of their graphs (engine/program/verify.hpp).
// Errors are PLAIT_ERR_INTERNAL: faults of the engine.
#pragma once

#include "engine/plan/plan.hpp"

namespace plait::plan {

// Every op but views has one call, in their order. Operands that are in the arena at the same time
// do not overlap, and lie in it; a value is at one place in all calls. A collective is what the
// plan lists at its index, and those with one kind and peer that ranks with different programs
// agree on start in the order of the plan's list.
void verify_program(const Plan& plan, const Program& program);

// A launch is on a slot of its program, and its feed is one of the entry point's. As the launches
// of the entry points follow each other, each entry point twice, no collective starts while it is
// under way, and each one ends behind its start. What an entry point starts it ends, messages
// excepted: the launch that uses their memory next waits for them.
void verify_launches(const Plan& plan);

}  // namespace plait::plan
