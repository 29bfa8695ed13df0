// One GPU: its context, memory, modules and what kernels share.
#pragma once

#include <plait/cuda.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <plait/plugin.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <vector>

#include "plugins/devices/cuda/opening_thread.hpp"
#include "plugins/support/cuda/current_context.hpp"
#include "plugins/support/cuda/driver.hpp"

namespace plait::cuda {

class Device;
class Queue;
struct Cudnn;

// What a plait_device * points to: the struct of cuda.h, then ours.
struct DeviceHandle {
  plait_cuda_device native;
  Device* device;
};

class Device {
 public:
  static std::span<const plait_option> options();
  // Whether a session could compute on a GPU; otherwise `why` says what is missing.
  static bool probe(const plait_host* host, const Options& options, std::string& why);

  Device(const plait_host* host, const Options& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  plait_device* handle() { return reinterpret_cast<plait_device*>(&handle_); }
  Host host() const { return Host(host_); }
  // Current on the thread that opened the device, and on others during a function of the device.
  CUcontext context() const { return context_; }
  int ordinal() const { return device_; }
  void info(plait_device_info& out) const;
  double peak_flops(uint32_t dtype) const;
  // plait_device_info.identity.
  const std::string& identity() const { return identity_; }
  // 90 for compute capability 9.0.
  int architecture() const { return architecture_; }
  int multiprocessors() const { return multiprocessors_; }
  // The options `libraries`, `cache` and `graphs`.
  const std::string& libraries() const { return libraries_; }
  const std::string& cache() const { return cache_; }
  bool graphs() const { return graphs_; }

  // These four where the context is current.
  void* alloc(uint64_t bytes);  // zeroed
  void free(void* memory) noexcept;
  void* host_alloc(uint64_t bytes);  // zeroed, pinned
  void host_free(void* memory) noexcept;

  // What kernels call in prepare(), on whatever thread: these make the context current.
  //
  // A __global__ function of a module that is embedded in the plugin (kernels/<module>.cu), loaded
  // the first time. dynamic_shared: bytes of dynamic shared memory that its launches may ask for.
  CUfunction function(const std::string& module, const std::string& name,
                      unsigned dynamic_shared = 0);
  // The same of code made at run time; `image` stays in memory for the call, the module as long as
  // the device. what: for messages.
  CUmodule load(const void* image, const std::string& what);
  CUfunction function(CUmodule module, const std::string& name, unsigned dynamic_shared = 0);

  // What kernels use, or could not have, beyond what open() found: a part of
  // plait_device_info.summary from now on. What info() gave before stays valid.
  void describe_more(const std::string& part);
  // A warning, the first time that it has this text.
  void warn_once(const std::string& text);

  // cuDNN; every queue of the device has a handle of it from now on (Queue::cudnn()). Not while one
  // captures. Errors: of cudnn().
  const Cudnn& open_cudnn();
  // Of a queue that opens or closes.
  void add(Queue& queue);
  void remove(Queue& queue);

  // The object of class T that all kernels of this device share, such as a handle of a library:
  // T(Device&), made the first time, destroyed before the context.
  template <class T>
  T& shared() {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<void>& part = shared_[typeid(T)];
    if (!part) {
      const CurrentContext current(context_);
      part = std::make_shared<T>(*this);
    }
    return *static_cast<T*>(part.get());
  }

 private:
  void open_context();
  void describe();
  CUmodule embedded(const std::string& module);

  const plait_host* host_;
  std::string libraries_, cache_;
  bool graphs_;
  uint32_t world_;  // ranks of the job
  DeviceHandle handle_{};
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::optional<OpeningThread> thread_;
  CUstream stream_ = nullptr;  // for zeroing memory
  int architecture_ = 0, multiprocessors_ = 0;
  uint64_t memory_ = 0;
  std::string name_, summary_, identity_;
  mutable std::recursive_mutex mutex_;  // of what follows; a shared object may load functions
  std::map<std::string, CUmodule> modules_;
  std::vector<CUmodule> made_;
  std::map<std::type_index, std::shared_ptr<void>> shared_;
  std::deque<std::string> longer_summaries_;  // each takes the place of the one before it
  std::set<std::string> warned_;
  std::set<Queue*> queues_;
  const Cudnn* cudnn_ = nullptr;
};

inline Device& device_of(plait_device* d) { return *reinterpret_cast<DeviceHandle*>(d)->device; }
inline CUstream stream_of(plait_queue* q) {
  return static_cast<CUstream>(reinterpret_cast<const plait_cuda_queue*>(q)->stream);
}
inline CUdeviceptr pointer(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

// The code of a .cu file for all architectures, nullptr if there is none of that name. Written by
// the build.
const void* embedded_module(std::string_view name);

}  // namespace plait::cuda
