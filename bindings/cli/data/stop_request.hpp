// SIGINT, SIGTERM and their like ask a long command to stop at the next good moment. The second
// signal has its default effect. A signal that was ignored stays so.
#pragma once

#include <signal.h>

#include <array>

#include "bindings/cli/interrupt.hpp"

namespace plait::cli {

// At most one per process.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;
  bool asked() const;

 private:
  std::array<struct sigaction, kStopSignals.size()> before_;
};

}  // namespace plait::cli
