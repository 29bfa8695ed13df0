// Reads one value of a TOML file as a declared option says.
#pragma once

#include "engine/config/option_set.hpp"

namespace plait::config {

// Sets value's number, text or list from `node`. Returns "" or what is wrong: "expected integer >= 1, found 0".
std::string read_option(const Node& node, const plait_option& option, const PathResolver& resolver,
                        OptionValue& value);

// The marker of a value that its author must fill in.
inline constexpr std::string_view kMustSet = "???";

}  // namespace plait::config
