// Verifies downloaded files.
#pragma once

#include <string>

#include "bindings/cli/data/sets.hpp"

namespace plait::cli {

// "" if the file at `path`, unpacked, has the size and checksum of `expected`; else the fault, for
// a message.
std::string verify(const std::string& path, const SetFile& expected);

}  // namespace plait::cli
