// Threads of the engine.
#pragma once

#include <functional>
#include <thread>

namespace plait {

// Starts a thread with all signals blocked: signals belong to the host's threads. Errors:
// PLAIT_ERR_IO.
std::thread start_thread(std::function<void()> work);

// Lets the calling thread run on every core that any thread of this process may use. A thread
// inherits the affinity of the thread that starts it, which may be bound to one core.
void unbind_thread() noexcept;

}  // namespace plait
