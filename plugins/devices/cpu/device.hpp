// The device `cpu`: memory, threads and options. Work runs immediately, in the calling thread and
// its OpenMP pool.
#pragma once

#include <string>

#include <plait/plugin.hpp>

#include "plugins/devices/cpu/back_off.hpp"
#include "plugins/devices/cpu/memory.hpp"
#include "plugins/devices/cpu/peak.hpp"
#include "plugins/devices/cpu/threads.hpp"

namespace plait::cpu {

class CpuDevice {
 public:
  static std::span<const plait_option> options();
  // The number of threads for kernels: the option, or all allowed cores; at most what OpenMP
  // grants.
  static uint32_t threads(const Options& o);

  CpuDevice(const Host& host, const Options& o);
  void info(plait_device_info& out) const;
  void* alloc(uint64_t bytes) { return memory_.alloc(bytes); }
  void free(void* p) noexcept { memory_.free(p); }
  void enter() noexcept {
    back_off_if_busy(backs_off_);
    binding_.enter();
  }
  void leave() noexcept { binding_.leave(); }
  // Of f32, of f64, and of 16-bit types that are multiplied as f32.
  double peak_flops(uint32_t dtype) const { return measured_peak(dtype, threads_); }

 private:
  uint32_t threads_;
  bool backs_off_;  // nobody has asked for a number of threads
  Memory memory_;
  Binding binding_;
  std::string summary_;
};

// The kernels, best first for each op; see kernels/.
std::vector<plait_kernel_item> kernels();

}  // namespace plait::cpu
