// The examples at the end of `plait help VERB`.
#pragma once

#include <string>

namespace plait::cli {

// "Examples:" and a line for each; "" for a verb without any. verb: "run", "data get". They are for
// a folder in which `plait new demo --from tiny` and the examples of `plait help run` were typed.
std::string help_examples(const std::string& verb);

}  // namespace plait::cli
