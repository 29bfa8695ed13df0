// The compiled maps of one device: compiled when they are first needed, kept in memory and on disk.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "plugins/devices/cuda/device.hpp"
#include "plugins/devices/cuda/map/cache.hpp"
#include "plugins/devices/cuda/map/compiler.hpp"
#include "plugins/devices/cuda/map/source.hpp"

namespace plait::cuda::map {

// One of each device: device.shared<Programs>().
class Programs {
 public:
  explicit Programs(Device& device);
  // The loaded kernel, nullptr where NVRTC is missing, incomplete, or newer than the driver, which
  // a warning has told. Any thread.
  CUfunction function(const Source& source);

 private:
  // From here on nothing is compiled; warns.
  void interpret(const std::string& why);
  std::string image(const Source& source);  // "" if NVRTC turns out to be incomplete
  Compiled compile(const Source& source) const;

  Device& device_;
  Compiler compiler_;
  Cache cache_;
  std::vector<std::string> options_;
  std::mutex mutex_;  // of what follows
  bool usable_ = false;
  std::unordered_map<std::string, CUfunction> functions_;  // by the source's text
};

}  // namespace plait::cuda::map
