// Prepared kernels. Calls with equal descriptors share one.
#pragma once

#include <plait/device.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/plugin/registry.hpp"
#include "engine/runtime/device.hpp"

namespace plait::runtime {

// Everything that prepare() sees of an op, as bytes: equal for equal descriptors.
std::string signature_of(const plait_op_desc& desc);

// Of one device. Owner thread only.
class KernelCache {
 public:
  KernelCache(std::shared_ptr<const plugin::Registry> registry, std::shared_ptr<Device> device)
      : registry_(std::move(registry)), device_(std::move(device)) {}
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  // A kernel for the op; lives as long as this object. where: "matmul of model.linear1", for
  // messages.
  plait_kernel* get(const plait_kernel_item& item, const plait_op_desc& desc,
                    const std::string& where);
  // Number of prepared kernels.
  size_t size() const { return kernels_.size(); }
  // The prepared kernels that have several algorithms.
  struct Tunable {
    const plait_kernel_item* item;
    plait_kernel* kernel;
    std::string plugin, where;
    std::string key;  // in hexadecimal: equal for equal descriptors, also on other ranks
  };
  const std::vector<Tunable>& tunables() const { return tunables_; }

 private:
  struct Prepared {
    const plait_kernel_item* item;
    plait_kernel* kernel;
  };
  std::shared_ptr<const plugin::Registry> registry_;
  std::shared_ptr<Device> device_;
  std::vector<Prepared> kernels_;
  std::vector<Tunable> tunables_;
  std::unordered_map<std::string, plait_kernel*> known_;  // by item and signature
};

// Whether run() works on the host, so that it can be neither shared nor recorded.
bool works_on_host(const plait_kernel_item& item);

}  // namespace plait::runtime
