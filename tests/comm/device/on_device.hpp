// A backend for device memory as the cases of tests/comm see a backend for host memory: each rank
// has a device of its own and a queue on it, and calls copy their operands (operands.hpp).
#pragma once

#include <plait/device.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/comm/device/operands.hpp"
#include "tests/comm/host.hpp"

namespace comm_test {

// The device of one rank; closed with the object.
class OpenDevice {
 public:
  virtual ~OpenDevice() = default;
  virtual const plait_device_item& item() const = 0;
  virtual plait_device* handle() const = 0;
};

// The plugin of the backend. What it says of itself is what the backend says.
class OnDevice : public Plugin {
 public:
  explicit OnDevice(const std::string& backend) : Plugin(backend) {}
  const plait_comm_item& item() const override { return adapted_; }
  plait_comm* open(const plait_comm_setup& setup, const GroupSettings& settings) const override;
  // The functions for groups in device memory.
  virtual const plait_comm_item& backend() const { return of_plugin(); }
  // The device of a rank; by default its own.
  mutable uint32_t (*gpu_of)(uint32_t rank) = [](uint32_t rank) { return rank; };

 protected:
  const plait_comm_item& of_plugin() const { return Plugin::item(); }
  // Before the first group is opened: the functions of item(), once backend() has those below.
  void adapt();
  virtual std::unique_ptr<OpenDevice> open_device(uint32_t index) const = 0;
  virtual plait_comm* open_group(const OpenDevice& device, const plait_comm_setup& setup,
                                 const GroupSettings& settings) const = 0;

 private:
  plait_comm_item adapted_{};
};

// What plait_comm and plait_comm_call of such a plugin are.
struct DeviceComm {
  const OnDevice* plugin = nullptr;
  uint32_t size = 0;
  std::unique_ptr<OpenDevice> device = nullptr;
  plait_queue* queue = nullptr;
  plait_comm* inner = nullptr;
  // Of calls that have not ended well. Their work may still access it until the group is closed.
  std::mutex mutex = {};
  std::vector<std::unique_ptr<DeviceOperands>> kept = {};
};
inline DeviceComm& device_comm(plait_comm* c) { return *reinterpret_cast<DeviceComm*>(c); }

}  // namespace comm_test
