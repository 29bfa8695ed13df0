// Launches whose calls are measured.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/runtime/executor.hpp"

namespace plait::session {

// While it exists, launches append their calls to `into`, which has room for `room` more.
class Timing {
 public:
  using Calls = std::vector<runtime::Executor::TimedCall>;
  Timing(runtime::Executor& executor, Calls& into, size_t room) : executor_(executor) {
    into.reserve(into.size() + room);
    executor_.time_calls(&into);
  }
  ~Timing() { executor_.time_calls(nullptr); }
  Timing(const Timing&) = delete;
  Timing& operator=(const Timing&) = delete;

 private:
  runtime::Executor& executor_;
};

// Of one run of an entry point.
inline size_t calls_of(const plan::Plan& plan, const std::string& entry_point) {
  size_t n = 0;
  for (const plan::Launch& launch : plan.entry_point(entry_point).launches)
    if (launch.program >= 0) n += plan.programs[static_cast<size_t>(launch.program)].calls.size();
  return n;
}

}  // namespace plait::session
