// Names that a user gives to parts of an experiment.
#pragma once

#include <string_view>

namespace plait::config {

// Letters, digits, _ and -, 1 to 200 of them: it becomes a part of parameter and file names.
bool good_name(std::string_view name);

}  // namespace plait::config
