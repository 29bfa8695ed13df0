#include "engine/runtime/device.hpp"

#include <cstddef>

#include "engine/base/c_error.hpp"
#include "engine/base/checked.hpp"
#include "engine/base/plugin_call.hpp"

namespace plait::runtime {

Device::Device(std::shared_ptr<const plugin::Registry> registry, const std::string& name,
               const config::OptionSet& options)
    : registry_(std::move(registry)),
      item_(registry_->device(name)),
      plugin_(registry_->plugin_of(&item_)) {
  check_plugin(try_plugin({plugin_, "open", "device", name},
                          [&] { return item_.open(host(), &options, &handle_); }),
               plugin_, "opening device '" + name + "'");
  info_.struct_size = sizeof info_;
  try {
    check_plugin(
        try_plugin({plugin_, "info", "device", name}, [&] { return item_.info(handle_, &info_); }),
        plugin_, "info() of device '" + name + "'");
  } catch (...) {
    close();
    throw;
  }
}

Device::~Device() { close(); }

void Device::close() noexcept {
  call_plugin_noexcept(host(), {"", "close", "device", item_.name}, [&] { item_.close(handle_); });
}

bool Device::pins() const {
  constexpr size_t kSize = offsetof(plait_device_item, host_free) + sizeof(item_.host_free);
  return item_.struct_size >= kSize && item_.host_alloc && !host_visible();
}

Arena::Arena(std::shared_ptr<Device> device, uint64_t bytes)
    : device_(std::move(device)), bytes_(bytes) {
  const auto call = [&] { return device_->item().alloc(device_->handle(), bytes, &data_); };
  check_plugin(try_plugin({device_->plugin(), "alloc", "device", device_->item().name}, call),
               device_->plugin(), "allocating the arena of " + human_bytes(bytes));
}

Arena::~Arena() {
  call_plugin_noexcept(device_->host(), {"", "free", "device", device_->item().name},
                       [&] { device_->item().free(device_->handle(), data_); });
}

HostMemory::HostMemory(std::shared_ptr<Device> device, uint64_t bytes)
    : device_(std::move(device)), bytes_(bytes) {
  if (!device_->pins()) {
    heap_ = std::make_unique<char[]>(bytes);
    data_ = heap_.get();
    return;
  }
  const auto call = [&] { return device_->item().host_alloc(device_->handle(), bytes, &data_); };
  check_plugin(try_plugin({device_->plugin(), "host_alloc", "device", device_->item().name}, call),
               device_->plugin(), "allocating " + human_bytes(bytes) + " of pinned host memory");
}

HostMemory::~HostMemory() {
  if (heap_) return;
  call_plugin_noexcept(device_->host(), {"", "host_free", "device", device_->item().name},
                       [&] { device_->item().host_free(device_->handle(), data_); });
}

}  // namespace plait::runtime
