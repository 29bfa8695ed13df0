// NCCL's backend, each rank with a GPU of its own.
#pragma once

#include <memory>
#include <string>

#include "tests/comm/device/on_device.hpp"

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

class OnGpus : public OnDevice {
 public:
  OnGpus(const std::string& device, const std::string& backend)
      : OnDevice(backend), device_(device) {
    adapt();
  }
  const DevicePlugin& device() const { return device_; }

 protected:
  std::unique_ptr<OpenDevice> open_device(uint32_t index) const override;
  plait_comm* open_group(const OpenDevice& device, const plait_comm_setup& setup,
                         const GroupSettings& settings) const override;

 private:
  const DevicePlugin device_;
};

}  // namespace comm_test
