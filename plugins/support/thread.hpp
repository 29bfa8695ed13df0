// Threads of our own plugins.
#pragma once

#include <functional>
#include <plait/plugin.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "kit/thread.hpp"

namespace plait::support {

// Calls f(), which starts a thread, and returns what it returns. Where the system gives none:
// PLAIT_ERR_IO of `part`, such as "[gloo] group 'data.0'", with the limits that may be the cause.
template <class F>
auto with_threads(std::string_view part, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::system_error& e) {
    fail(PLAIT_ERR_IO, std::string(part) + " cannot start a thread: " + e.code().message() +
                           "; raise the limits of processes and memory (ulimit -u, ulimit -v)");
  }
}

// Starts a thread with all signals blocked. Errors: as with_threads().
inline std::thread start_thread(std::string_view part, std::function<void()> work) {
  return with_threads(part, [&] { return kit::start_thread(std::move(work)); });
}

}  // namespace plait::support
