// This machine and its processes.
#pragma once

#include <sys/types.h>

#include <string>

namespace plait {

std::string host_name();  // "localhost" where the machine has no name
// Whether this process sees no process of that id, which is positive. A process of another
// container may be one it does not see.
bool process_ended(pid_t id);

}  // namespace plait
