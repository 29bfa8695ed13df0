#include "engine/runtime/device.hpp"

#include <cmath>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/base/c_error.hpp"
#include "engine/base/checked.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"

namespace plait::runtime {

Device::Device(std::shared_ptr<const plugin::Registry> registry, const std::string& name,
               const config::OptionSet& options)
    : registry_(std::move(registry)),
      item_(registry_->device(name)),
      plugin_(registry_->plugin_of(&item_)) {
  check_plugin({plugin_, "open", "device", name}, "opening the device",
               [&] { return item_.open(host(), &options, &handle_); });
  info_.struct_size = sizeof info_;
  try {
    check_plugin({plugin_, "info", "device", name}, "describing the device",
                 [&] { return item_.info(handle_, &info_); });
    check_info();
  } catch (...) {
    close();
    throw;
  }
}

std::string Device::summary() const {
  if (given_up()) return info_.summary ? info_.summary : "";
  plait_device_info now{};
  now.struct_size = sizeof now;
  check_plugin({plugin_, "info", "device", item_.name}, "describing the device",
               [&] { return item_.info(handle_, &now); });
  return now.summary ? now.summary : "";
}

// A number below 0 that became one without a sign is far above any machine's.
void Device::check_info() const {
  constexpr uint64_t kMostBytes = uint64_t{1} << 52;
  constexpr uint32_t kMostThreads = 1u << 24;
  const auto refuse = [&](const std::string& found) {
    fail(PLAIT_ERR_PLUGIN, "[plugin " + plugin_ + "] info() of device '" + item_.name +
                               "' says it has " + found + "; tell its author");
  };
  if (info_.memory_bytes > kMostBytes)
    refuse(strf("%llu bytes of memory, expected at most %llu",
                static_cast<unsigned long long>(info_.memory_bytes),
                static_cast<unsigned long long>(kMostBytes)));
  if (info_.threads > kMostThreads)
    refuse(strf("%u threads, expected at most %u", info_.threads, kMostThreads));
}

Device::~Device() { close(); }

namespace {
std::mutex g_kept_mutex;
// The devices that were given up, never destroyed: their threads may run while the process ends.
Device* g_given_up = nullptr;
}  // namespace

void Device::give_up(std::string reason) noexcept {
  const std::lock_guard lock(g_kept_mutex);
  if (given_up()) return;
  reason_ = std::move(reason);
  self_ = shared_from_this();
  next_given_up_ = g_given_up;
  g_given_up = this;
  given_up_.store(true, std::memory_order_release);
}

void Device::require_usable() const {
  if (!given_up()) return;
  fail(PLAIT_ERR_DEVICE,
       reason_.empty() ? strf("[runtime] device '%s' was given up", item_.name) : reason_);
}

bool Device::keeps(const void* object) const noexcept {
  if (!given_up()) return false;
  const std::lock_guard lock(g_kept_mutex);
  try {
    kept_.push_back(object);
  } catch (const std::bad_alloc&) {
    // The object stays all the same; only a leak checker does not find it.
  }
  return true;
}

void Device::close() noexcept {
  call_plugin_noexcept(host(), {"", "close", "device", item_.name}, [&] { item_.close(handle_); });
}

plait_dl_device Device::dl_device() const {
  if (info_.dl_type != 0) return {info_.dl_type, info_.dl_id};
  return {host_visible() ? 1 : 0, 0};
}

bool Device::knows_streams() const {
  constexpr size_t kSize = offsetof(plait_device_item, order) + sizeof(item_.order);
  return item_.struct_size >= kSize && item_.order;
}

std::string text_of(const plait_dl_device& device) {
  switch (device.type) {
    case 1:
      return "host memory";
    case 2:
      return strf("CUDA device %d", device.id);
    case 3:
      return "pinned host memory";
    default:
      return strf("DLPack device of type %d, index %d", device.type, device.id);
  }
}

bool Device::pins() const {
  constexpr size_t kSize = offsetof(plait_device_item, host_free) + sizeof(item_.host_free);
  return item_.struct_size >= kSize && item_.host_alloc && !host_visible();
}

double Device::peak_flops(uint32_t dtype) const {
  constexpr size_t kSize = offsetof(plait_device_item, peak_flops) + sizeof(item_.peak_flops);
  if (item_.struct_size < kSize || !item_.peak_flops || given_up()) return 0;
  const double found = call_plugin({plugin_, "peak_flops", "device", item_.name},
                                   [&] { return item_.peak_flops(handle_, dtype); });
  if (std::isfinite(found) && found >= 0 && found < 1e21) return found;
  fail(PLAIT_ERR_PLUGIN, "[plugin " + plugin_ + "] peak_flops() of device '" + item_.name +
                             "' returned " + strf("%g", found) +
                             ", expected a number of operations per second; tell its author");
}

namespace {

void check_memory(const PluginCall& at, const void* memory) {
  if (memory && reinterpret_cast<uintptr_t>(memory) % 64 == 0) return;
  fail(PLAIT_ERR_PLUGIN,
       "[plugin " + std::string(at.plugin) + "] " + text_of(at) +
           (memory ? " gave an address that is no multiple of 64" : " gave no address") +
           "; tell its author");
}

}  // namespace

Arena::Arena(std::shared_ptr<Device> device, uint64_t bytes)
    : device_(std::move(device)), bytes_(bytes) {
  const auto call = [&] { return device_->item().alloc(device_->handle(), bytes, &data_); };
  const PluginCall at{device_->plugin(), "alloc", "device", device_->item().name};
  check_plugin(at, "allocating the arena of " + human_bytes(bytes), call);
  check_memory(at, data_);
}

Arena::~Arena() {
  if (device_->keeps(data_)) return;
  call_plugin_noexcept(device_->host(), {"", "free", "device", device_->item().name},
                       [&] { device_->item().free(device_->handle(), data_); });
}

HostMemory::HostMemory(std::shared_ptr<const Device> device, uint64_t bytes)
    : device_(std::move(device)), bytes_(bytes) {
  device_->require_usable();
  if (!device_->pins()) {
    heap_ = std::make_unique<char[]>(bytes);
    data_ = heap_.get();
    return;
  }
  const auto call = [&] { return device_->item().host_alloc(device_->handle(), bytes, &data_); };
  const PluginCall at{device_->plugin(), "host_alloc", "device", device_->item().name};
  check_plugin(at, "allocating " + human_bytes(bytes) + " of pinned host memory", call);
  check_memory(at, data_);
}

HostMemory::~HostMemory() {
  if (device_->keeps(data_)) {
    static_cast<void>(heap_.release());
    return;
  }
  if (heap_) return;
  call_plugin_noexcept(device_->host(), {"", "host_free", "device", device_->item().name},
                       [&] { device_->item().host_free(device_->handle(), data_); });
}

}  // namespace plait::runtime
