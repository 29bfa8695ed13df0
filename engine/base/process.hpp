// This machine and its processes.
#pragma once

#include <sys/types.h>

#include <string>

namespace plait {

std::string host_name();  // "localhost" where the machine has no name
// Whether no process has this id, as far as this process can see; id: positive. It may not see a
// process of another container.
bool process_ended(pid_t id);

}  // namespace plait
