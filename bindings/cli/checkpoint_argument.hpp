// The checkpoint that a verb works with.
#pragma once

#include <string>

#include "bindings/cli/context.hpp"

namespace plait::cli {

// `given` with --checkpoint, or the run directory or checkpoint that was named in place of an
// experiment; "" if there is neither.
std::string checkpoint_of(const FileArguments& file, const std::string& given);

// The same. Errors: CliError (kUsage) when there is neither. verb: "eval".
std::string checkpoint_argument(const FileArguments& file, const std::string& given,
                                const std::string& verb);

}  // namespace plait::cli
