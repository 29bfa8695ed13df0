// Does a file hold what it should?
#pragma once

#include <string>

#include "bindings/cli/data/sets.hpp"

namespace plait::cli {

// "" when the file at `path`, unpacked, has the size and checksum of `expected`; else what is wrong with it, for a message.
std::string verify(const std::string& path, const SetFile& expected);

}  // namespace plait::cli
