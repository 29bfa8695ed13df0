// Threads of the engine's own.
#pragma once

#include <functional>
#include <thread>

namespace plait {

// A thread that no signal disturbs: those are the host's. Errors: PLAIT_ERR_IO.
std::thread start_thread(std::function<void()> work);

// Lets the calling thread run on every core that some thread of this process may use. A thread inherits the cores of who starts
// it, and who computes may be bound to one.
void unbind_thread() noexcept;

}  // namespace plait
