// The same tests for staged groups of the engine, over a backend for host memory, with operands on
// emulated GPUs: DEVICE.so:BACKEND.so. Errors come from the engine.
#include "engine/runtime/staged.hpp"

#include <filesystem>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/base/text.hpp"
#include "engine/plugin/registry.hpp"
#include "tests/comm/device/on_device.hpp"

namespace comm_test {
namespace {

// A plugin with a device, as the engine loads it.
struct Loaded {
  explicit Loaded(const std::string& path) {
    registry.load(std::filesystem::canonical(path).string());
  }
  plait::Log log;
  plait::plugin::Registry registry{log, plait::FileSystem::posix(), {}};
};

class EngineDevice : public OpenDevice {
 public:
  explicit EngineDevice(std::shared_ptr<const plait::runtime::Device> device)
      : device_(std::move(device)) {}
  const plait_device_item& item() const override { return device_->item(); }
  plait_device* handle() const override { return device_->handle(); }
  const std::shared_ptr<const plait::runtime::Device>& device() const { return device_; }

 private:
  const std::shared_ptr<const plait::runtime::Device> device_;
};

// Calls f(); an error of the engine becomes a Failure.
template <class F>
auto failing(F&& f) {
  try {
    return f();
  } catch (const plait::Error& e) {
    throw Failure(e.code(), e.full_text());
  }
}

class Staged : public OnDevice {
 public:
  Staged(const std::string& device, const std::string& backend)
      : OnDevice(backend), loaded_(std::make_shared<Loaded>(device)) {
    adapt();
  }
  const plait_comm_item& backend() const override { return plait::runtime::staged_item(); }

 protected:
  std::unique_ptr<OpenDevice> open_device(uint32_t index) const override {
    using namespace plait;
    const std::string name = loaded_->registry.devices().at(0);
    const plait_device_item& item = loaded_->registry.device(name);
    config::Problems problems;
    auto options =
        config::OptionSet::check(config::Node::table(config::Origin::none()),
                                 {item.options, item.n_options}, {}, "device", {}, problems);
    options.set_int("index", index, config::Origin::none());
    const std::shared_ptr<const plugin::Registry> registry(loaded_, &loaded_->registry);
    return failing([&] {
      return std::make_unique<EngineDevice>(
          std::make_shared<runtime::Device>(registry, name, options));
    });
  }

  plait_comm* open_group(const OpenDevice& device, const plait_comm_setup& setup,
                         const GroupSettings& settings) const override {
    plait_comm* comm = nullptr;
    with_options(settings, [&](const plait_options& options) {
      const plait::runtime::CommBackend host{&of_plugin(), Plugin::host(), &options,
                                             Plugin::name()};
      comm = failing([&] {
        return plait::runtime::open_staged(host, static_cast<const EngineDevice&>(device).device(),
                                           setup);
      });
    });
    return comm;
  }

 private:
  const std::shared_ptr<Loaded> loaded_;
};

}  // namespace

std::unique_ptr<Plugin> make_plugin(const std::string& argument) {
  const std::vector<std::string> parts = plait::split(argument, ':');
  if (parts.size() != 2) throw std::runtime_error("expected DEVICE.so:BACKEND.so");
  return std::make_unique<Staged>(parts[0], parts[1]);
}

}  // namespace comm_test
