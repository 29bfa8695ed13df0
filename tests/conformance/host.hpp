// A minimal host for device plugins: loads one file, takes its items, provides options. It uses
// abi/ and no part of the engine.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <plait/plugin.hpp>

#include "tests/support/abi_host.hpp"

namespace conformance {

// Throws std::runtime_error with the text of an error of the host, and frees the error.
void check(plait_error* e);
// The text of an error, which is freed; empty if there is none.
std::string take(plait_error* e);
using abi_host::live_errors;
using abi_host::OptionValues;

// One loaded plugin with one device.
class Plugin {
 public:
  explicit Plugin(const std::string& path);
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const plait_host* host() const { return &host_; }
  const plait_device_item& device() const { return *device_; }
  std::string name() const { return device_->name; }
  // Kernels of an op, best first.
  std::vector<const plait_kernel_item*> kernels(std::string_view op) const;
  const std::vector<const plait_kernel_item*>& all_kernels() const { return kernels_; }

 private:
  static plait_error* add(const plait_host* host, const char* kind, const void* item);

  plait_host host_;  // first, so that add() finds the plugin
  abi_host::PluginFile file_;
  const plait_device_item* device_ = nullptr;
  std::vector<const plait_kernel_item*> kernels_;
};

// An open device with one queue.
class Device {
 public:
  explicit Device(const Plugin& plugin, const OptionValues& options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Plugin& plugin() const { return plugin_; }
  const plait_device_item& item() const { return plugin_.device(); }
  plait_device* get() const { return device_; }
  plait_queue* queue() const { return queue_; }
  uint32_t threads() const { return threads_; }

 private:
  const Plugin& plugin_;
  plait_device* device_ = nullptr;
  plait_queue* queue_ = nullptr;
  uint32_t threads_ = 0;
};

// From now on buffers have no guard behind them, so that a sanitizer sees what is accessed there.
void set_bounds();
bool bounds();

// Device memory between two guards, to detect writes beyond either end. Poisoned where no content
// is given.
class Buffer {
 public:
  Buffer(const Device& device, uint64_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  void put(const std::vector<unsigned char>& bytes);
  void poison();
  std::vector<unsigned char> get() const;
  bool guards_intact() const;

 private:
  std::vector<unsigned char> read(const void* from, uint64_t bytes) const;
  const Device& device_;
  uint64_t bytes_;
  void* base_ = nullptr;
  void* data_ = nullptr;
};

// The plugins under test: the first is the reference.
const Plugin& reference();
const std::vector<std::unique_ptr<Plugin>>& plugins();
void load_plugins(const std::string& reference, const std::vector<std::string>& others);
void unload_plugins();

}  // namespace conformance
