#include "tests/nccl/device.hpp"

#include <cstring>

namespace comm_test {
namespace {

class Gpu : public OpenDevice {
 public:
  Gpu(const DevicePlugin& plugin, uint32_t index)
      : item_(plugin.item()), device_(plugin.open(index)) {}
  ~Gpu() override { item_.close(device_); }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  const plait_device_item& item() const override { return item_; }
  plait_device* handle() const override { return device_; }

 private:
  const plait_device_item& item_;
  plait_device* const device_;
};

}  // namespace

DevicePlugin::DevicePlugin(const std::string& path)
    : host_{abi_host::table_of(add), this}, file_(path) {
  check(file_.open(&host_.head));
  if (!item_) throw std::runtime_error(path + " offers no device");
}

plait_error* DevicePlugin::add(const plait_host* host, const char* kind, const void* item) {
  if (std::strcmp(kind, PLAIT_KIND_DEVICE) == 0)
    reinterpret_cast<const Host*>(host)->plugin->item_ =
        static_cast<const plait_device_item*>(item);
  return nullptr;
}

plait_device* DevicePlugin::open(uint32_t gpu) const {
  plait_device* device = nullptr;
  const abi_host::Options options =
      abi_host::options_of(item_->options, item_->n_options, {{"index", std::to_string(gpu)}});
  check(item_->open(&host_.head, &options.head, &device));
  return device;
}

std::unique_ptr<OpenDevice> OnGpus::open_device(uint32_t index) const {
  return std::make_unique<Gpu>(device_, index);
}

plait_comm* OnGpus::open_group(const OpenDevice& device, const plait_comm_setup& setup,
                               const GroupSettings& settings) const {
  plait_comm_setup with_device = setup;
  with_device.device = device.handle();
  return Plugin::open(with_device, settings);
}

std::unique_ptr<Plugin> make_plugin(const std::string& argument) {
  const size_t colon = argument.find(':');
  if (colon == std::string::npos) throw std::runtime_error("expected DEVICE.so:BACKEND.so");
  return std::make_unique<OnGpus>(argument.substr(0, colon), argument.substr(colon + 1));
}

}  // namespace comm_test
