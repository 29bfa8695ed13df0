// Objects of the driver in the context of the group's device.
#pragma once

#include <plait/cuda.h>
#include <signal.h>

#include <plait/plugin.hpp>
#include <string>

#include "plugins/support/cuda/current_context.hpp"
#include "plugins/support/cuda/driver.hpp"

namespace plait::comm_nccl {

using cuda::check;
using cuda::CurrentContext;
using cuda::driver;

// Blocks all signals on this thread; threads that it starts meanwhile have them blocked for ever.
class SignalBlock {
 public:
  SignalBlock() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalBlock() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;

 private:
  sigset_t before_;
};

// Each of these is made and destroyed where the context is current.
class Event {
 public:
  Event() { check(driver().cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), "creating an event"); }
  ~Event() { driver().cuEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  CUevent raw() const { return event_; }

 private:
  CUevent event_ = nullptr;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t bytes) {
    CUdeviceptr p = 0;
    if (bytes == 0) return;
    check(driver().cuMemAlloc(&p, bytes),
          "allocating " + std::to_string(bytes) + " bytes for a collective");
    data_ = reinterpret_cast<void*>(p);
  }
  ~DeviceMemory() {
    if (data_) driver().cuMemFree(reinterpret_cast<CUdeviceptr>(data_));
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  char* data() const { return static_cast<char*>(data_); }
  // Memory that the GPU may still use stays.
  void leak() { data_ = nullptr; }

 private:
  void* data_ = nullptr;
};

inline CUstream stream_of(plait_queue* queue) {
  return static_cast<CUstream>(reinterpret_cast<const plait_cuda_queue*>(queue)->stream);
}

}  // namespace plait::comm_nccl
