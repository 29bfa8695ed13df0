// An opened device and memory of it.
#pragma once

#include <plait/device.h>
#include <plait/tensor.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/config/option_set.hpp"
#include "engine/plugin/registry.hpp"

namespace plait::runtime {

// Owned jointly: a view of its memory may outlive the session.
class Device : public std::enable_shared_from_this<Device> {
 public:
  Device(std::shared_ptr<const plugin::Registry> registry, const std::string& name,
         const config::OptionSet& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  const plait_device_item& item() const { return item_; }
  plait_device* handle() const { return handle_; }
  const plait_host* host() const { return registry_->host_of(&item_); }
  const plait_device_info& info() const { return info_; }
  const std::string& plugin() const { return plugin_; }
  // What the device says of itself now: kernels that were prepared may have added to it. "" if it
  // says nothing. [owner of the device]
  std::string summary() const;

  // Whether its memory is host memory.
  bool host_visible() const { return info_.host_visible != 0; }
  // Whether a capture records device work, so that a launch calls no run().
  bool records() const { return info_.records != 0; }
  // Whether a launch makes the recorded calls anew, so that no graph can contain a collective.
  bool replays_calls() const { return info_.by_calls != 0; }
  // Where its memory is, in DLPack's terms; type 0: it does not say.
  plait_dl_device dl_device() const;
  // Whether its queues can be ordered with streams of the host.
  bool knows_streams() const;
  // Whether only memory of host_alloc() is copied asynchronously.
  bool pins() const;
  // plait_device_item.peak_flops(); 0: not known. May measure the first time. [compute]
  double peak_flops(uint32_t dtype) const;
  // The text that must be equal on all ranks; "" if the device has none.
  std::string identity() const { return info_.identity ? info_.identity : ""; }

  // For a device that does not finish its work: it may still access all memory that it was given,
  // and a call that closes or frees something may wait for it. From then on nothing of it is
  // closed or freed, and it stays open with its plugin until the process ends. reason: the error of
  // all later calls; "": a general one. The first reason stays. Any thread.
  void give_up(std::string reason) noexcept;
  bool given_up() const { return given_up_.load(std::memory_order_acquire); }
  // Errors: PLAIT_ERR_DEVICE if it was given up.
  void require_usable() const;
  // For whoever is about to close or free an object of the device: whether it must be kept.
  bool keeps(const void* object) const noexcept;

 private:
  void check_info() const;
  void close() noexcept;
  std::shared_ptr<const plugin::Registry> registry_;  // keeps the plugin loaded
  const plait_device_item& item_;
  std::string plugin_;
  plait_device* handle_ = nullptr;
  plait_device_info info_{};
  std::atomic<bool> given_up_{false};
  std::string reason_;            // constant once given_up_ is set
  std::shared_ptr<Device> self_;  // of a device that was given up
  Device* next_given_up_ = nullptr;
  mutable std::vector<const void*> kept_;  // for tools that look for lost memory
};

// "host memory", "CUDA device 1", "DLPack device of type 12, index 0".
std::string text_of(const plait_dl_device& device);

// One allocation of device memory, zero at first.
class Arena {
 public:
  Arena(std::shared_ptr<Device> device, uint64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  char* data() const { return static_cast<char*>(data_); }
  uint64_t bytes() const { return bytes_; }
  const Device& device() const { return *device_; }

 private:
  std::shared_ptr<Device> device_;
  void* data_ = nullptr;
  uint64_t bytes_;
};

// Zeroed host memory that the device copies asynchronously: from the heap, if the device does not
// need other memory.
class HostMemory {
 public:
  HostMemory(std::shared_ptr<const Device> device, uint64_t bytes);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  char* data() const { return static_cast<char*>(data_); }
  uint64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const Device> device_;
  std::unique_ptr<char[]> heap_;
  void* data_ = nullptr;
  uint64_t bytes_;
};

}  // namespace plait::runtime
