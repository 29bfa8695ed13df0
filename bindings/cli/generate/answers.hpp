// plait generate without --chat: an answer to each prompt.
#pragma once

#include "bindings/cli/generate/prompts.hpp"
#include "bindings/cli/generate/sequences.hpp"

namespace plait::cli {

// Returns the exit code. Errors: of the library, behind what was generated.
int answer(Sequences& sequences, const Prompts& prompts);

}  // namespace plait::cli
