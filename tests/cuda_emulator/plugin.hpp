// The CUDA plugin on the emulated driver, for tests.
#pragma once

#include <doctest/doctest.h>
#include <plait/device.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda_emulator/interface.hpp"
#include "tests/support/abi_host.hpp"

namespace cuda_emulator {

// The plugin with its device item and one kernel.
class Plugin {
 public:
  Plugin() : host_(abi_host::table_of(add)), file_(CUDA_PLUGIN) {
    plait_error* e = file_.open(&host_);
    REQUIRE(e == nullptr);
    REQUIRE(device_ != nullptr);
  }
  const plait_host* host() const { return &host_; }
  const plait_device_item& device() const { return *device_; }
  const std::vector<const plait_kernel_item*>& kernels() const { return kernels_; }

 private:
  static plait_error* add(const plait_host* host, const char* kind, const void* item) {
    auto* self = reinterpret_cast<Plugin*>(const_cast<plait_host*>(host));
    if (std::strcmp(kind, PLAIT_KIND_DEVICE) == 0)
      self->device_ = static_cast<const plait_device_item*>(item);
    if (std::strcmp(kind, PLAIT_KIND_KERNEL) == 0)
      self->kernels_.push_back(static_cast<const plait_kernel_item*>(item));
    return nullptr;
  }
  plait_host host_;  // first, so that add() finds the plugin
  abi_host::PluginFile file_;
  const plait_device_item* device_ = nullptr;
  std::vector<const plait_kernel_item*> kernels_;
};

inline Plugin& plugin() {
  static Plugin p;
  return p;
}

inline std::string take(plait_error* e) {
  if (!e) return "";
  std::string text = abi_host::error_text(e);
  abi_host::error_free(e);
  return text;
}

// softmax of (3, 5) of f32, by the plain kernel.
inline const plait_kernel_item& softmax() {
  for (const plait_kernel_item* k : plugin().kernels())
    if (std::strcmp(k->op, "softmax") == 0 && k->priority == 0) return *k;
  FAIL("no plain kernel of softmax");
  return *plugin().kernels()[0];
}

constexpr plait_shape kSoftmaxShape{PLAIT_F32, 2, {3, 5}};
constexpr uint64_t kSoftmaxBytes = 60;

inline plait_op_desc softmax_desc() {
  plait_op_desc d{};
  d.struct_size = sizeof d;
  d.op = "softmax";
  d.n_inputs = d.n_outputs = 1;
  d.threads = 1;
  d.inputs = d.outputs = &kSoftmaxShape;
  return d;
}

// An open device.
class OpenDevice {
 public:
  explicit OpenDevice(const abi_host::OptionValues& given = {},
                      const plait_host& host = *plugin().host()) {
    const auto options = abi_host::options_of(item().options, item().n_options, given);
    REQUIRE(take(item().open(&host, &options.head, &device_)) == "");
  }
  ~OpenDevice() { close(); }
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;
  void close() {
    if (device_) item().close(device_);
    device_ = nullptr;
  }
  plait_device* get() const { return device_; }
  static const plait_device_item& item() { return plugin().device(); }

  plait_queue* queue() const {
    plait_queue* q = nullptr;
    REQUIRE(take(item().queue_open(device_, &q)) == "");
    return q;
  }
  plait_event* event() const {
    plait_event* e = nullptr;
    REQUIRE(take(item().event_open(device_, &e)) == "");
    return e;
  }
  float* memory(uint64_t bytes = kSoftmaxBytes) const {
    void* p = nullptr;
    REQUIRE(take(item().alloc(device_, bytes, &p)) == "");
    return static_cast<float*>(p);
  }
  float* pinned(uint64_t bytes = kSoftmaxBytes) const {
    void* p = nullptr;
    REQUIRE(take(item().host_alloc(device_, bytes, &p)) == "");
    return static_cast<float*>(p);
  }

 private:
  plait_device* device_ = nullptr;
};

// Errors of plugins are all freed, and so is everything of the driver.
inline void check_nothing_is_left() {
  CHECK(std::string(emulator_live()) == "");
  CHECK(abi_host::live_errors() == 0);
}

}  // namespace cuda_emulator
