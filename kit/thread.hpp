// Threads of the engine and of plugins, beside the host's.
#pragma once

#include <functional>
#include <thread>

namespace plait::kit {

// Starts a thread with all signals blocked: signals belong to the host's threads. Throws
// std::system_error.
std::thread start_thread(std::function<void()> work);

}  // namespace plait::kit
