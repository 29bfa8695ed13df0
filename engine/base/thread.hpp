// Threads of the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

namespace plait {

// Starts a thread with all signals blocked: signals belong to the host's threads. Errors:
// PLAIT_ERR_IO.
std::thread start_thread(std::function<void()> work);

// Calls f(), which starts a thread. Errors: PLAIT_ERR_IO where the system gives none.
void with_threads(const std::function<void()>& f);

// Lets the calling thread run on every core that any thread of this process may use. A thread
// inherits the affinity of the thread that starts it, which may be bound to one core.
void unbind_thread() noexcept;

// Calls f(i) for every i of [0, n), n >= 1, at the same time: f(0) in the calling thread, the
// others on threads of their own (start_thread(), unbound). Returns when all have returned; of
// their exceptions the one of the smallest i is rethrown. Errors: PLAIT_ERR_IO if a thread cannot
// be started, when those that were started have returned.
void run_on_threads(int64_t n, const std::function<void(int64_t)>& f);

}  // namespace plait
