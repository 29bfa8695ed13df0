// A backend for device memory as the tests of backends for host memory see it: each rank has a GPU
// of its own and a queue on it. Operands lie in the host's memory, which emulated GPUs can access.
#pragma once

#include <plait/device.h>

#include <memory>
#include <string>

#include "tests/comm/host.hpp"

namespace comm_test {

// A plugin with a device.
class DevicePlugin {
 public:
  explicit DevicePlugin(const std::string& path);
  const plait_device_item& item() const { return *item_; }
  plait_device* open(uint32_t gpu) const;

 private:
  static plait_error* add(const plait_host* host, const char* kind, const void* item);
  struct Host {
    plait_host head;
    DevicePlugin* plugin;
  } host_;
  abi_host::PluginFile file_;
  const plait_device_item* item_ = nullptr;
};

class OnDevice : public Plugin {
 public:
  OnDevice(const std::string& device, const std::string& backend);
  const plait_comm_item& item() const override { return adapted_; }
  const plait_comm_item& backend() const { return Plugin::item(); }
  const DevicePlugin& device() const { return device_; }
  plait_comm* open(const plait_comm_setup& setup, const GroupSettings& settings) const override;
  // The GPU of a rank; by default its own.
  mutable uint32_t (*gpu_of)(uint32_t rank) = [](uint32_t rank) { return rank; };

 private:
  const DevicePlugin device_;
  plait_comm_item adapted_;
};

// What plait_comm and plait_comm_call of such a plugin are.
struct DeviceComm {
  const OnDevice* plugin;
  plait_device* device;
  plait_queue* queue;
  plait_comm* inner;
};
inline DeviceComm& device_comm(plait_comm* c) { return *reinterpret_cast<DeviceComm*>(c); }
struct DeviceCall {
  DeviceComm* comm;
  plait_comm_call* inner;
};

}  // namespace comm_test
