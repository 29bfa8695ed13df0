// Reads one value of a TOML file according to the declaration of its option.
#pragma once

#include "engine/config/option_set.hpp"

namespace plait::config {

// Sets value's number, text or list from `node`. Returns "" or the fault: "expected integer >= 1,
// found 0".
std::string read_option(const Node& node, const plait_option& option, const PathResolver& resolver,
                        OptionValue& value);

// Marks a value that the author of the file must fill in.
inline constexpr std::string_view kMustSet = "???";

}  // namespace plait::config
