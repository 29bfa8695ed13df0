// The operands of a call in device memory. The cases of tests/comm have theirs in host memory:
// each call copies them to the device when it starts, and its result back when it ends. So the same
// cases test backends for device memory, on a GPU as on an emulated one.
#pragma once

#include <plait/comm.h>
#include <plait/device.h>

#include <cstdint>
#include <vector>

namespace comm_test {

class DeviceOperands {
 public:
  // Of a call in a group of so many ranks. item and device are borrowed. Throws Failure.
  DeviceOperands(const plait_device_item& item, plait_device* device, const plait_comm_desc& call,
                 uint32_t ranks);
  ~DeviceOperands();
  DeviceOperands(const DeviceOperands&) = delete;
  DeviceOperands& operator=(const DeviceOperands&) = delete;

  // The call with its operands on the device; they overlap as they do on the host. An impossible
  // call, which prepare() refuses, keeps its own.
  const plait_comm_desc& call() const { return call_; }
  // Puts what the operands are now, and guards around them, on the device.
  plait_error* put(plait_queue* queue);
  // Waits for the queue and gives the host the result. An error if the call has changed a guard, or
  // an operand that is not in place.
  plait_error* take(plait_queue* queue) const;

 private:
  struct Operand {
    char* host = nullptr;
    uint64_t bytes = 0;
  };
  // Operands that overlap lie in one area. image: what was put there, with a guard on either side.
  struct Area {
    char* host = nullptr;
    uint64_t bytes = 0;
    void* memory = nullptr;
    char* begin = nullptr;  // of the first guard
    std::vector<char> image;
  };
  char* add_area(char* host, uint64_t bytes);

  const plait_device_item& item_;
  plait_device* const device_;
  plait_comm_desc call_;
  Operand in_, out_;
  bool in_place_ = false;
  std::vector<Area> areas_;
};

}  // namespace comm_test
