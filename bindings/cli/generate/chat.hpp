// plait generate --chat: a conversation with the model.
#pragma once

#include "bindings/cli/generate/sequences.hpp"

namespace plait::cli {

// Reads the user's messages from standard input, a line each, and writes the model's. Ctrl-C ends a
// message of the model; at the prompt it ends the program. Returns the exit code.
int chat(Sequences& sequences);

}  // namespace plait::cli
