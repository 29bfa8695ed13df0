// Calls of libraries while a stream is recorded.
#pragma once

#include "plugins/support/cuda/driver.hpp"

namespace plait::cuda {

// Module loading is not allowed in a capture unless the thread relaxes it, and libraries load the
// code of an algorithm when it is first run.
class RelaxedCapture {
 public:
  RelaxedCapture() { exchange(); }
  ~RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace plait::cuda
