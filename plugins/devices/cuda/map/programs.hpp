// The compiled maps of one device, kept in memory and on disk. What is not there is compiled on
// threads of their own, several at a time, while the engine prepares other kernels.
#pragma once

#include <future>
#include <mutex>
#include <string>
#include <unordered_map>

#include "plugins/devices/cuda/device.hpp"
#include "plugins/devices/cuda/map/cache.hpp"
#include "plugins/devices/cuda/map/compiler.hpp"
#include "plugins/devices/cuda/map/source.hpp"
#include "plugins/devices/cuda/map/workers.hpp"

namespace plait::cuda::map {

// A loaded kernel, once it is compiled; get() waits for that and throws what it failed with.
using Kernel = std::shared_future<CUfunction>;

// One of each device: device.shared<Programs>().
class Programs {
 public:
  explicit Programs(Device& device);
  // Not valid() where NVRTC is missing, incomplete, or newer than the driver, which a warning has
  // told. Any thread.
  Kernel kernel(const Source& source);

 private:
  // From here on nothing is compiled; warns.
  void interpret(const std::string& why);
  Kernel compile_first(const Source& source, const std::string& key);
  Kernel compile_beside(const Source& source, const std::string& key);
  Compiled compile(const Source& source) const;
  CUfunction load(const Source& source, const std::string& image);

  Device& device_;
  Compiler compiler_;
  Cache cache_;
  std::vector<std::string> options_;
  std::mutex mutex_;  // of what follows
  bool usable_ = false;
  bool compiles_ = false;                            // NVRTC has compiled a map: it is complete
  std::unordered_map<std::string, Kernel> kernels_;  // by the source's text
  Workers workers_;                                  // last: its tasks use all of the above
};

}  // namespace plait::cuda::map
