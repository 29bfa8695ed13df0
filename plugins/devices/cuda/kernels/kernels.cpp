#include "plugins/devices/cuda/kernels/kernel.hpp"

namespace plait::cuda {

std::vector<plait_kernel_item> kernels() {
  std::vector<plait_kernel_item> all;
  add_families(all);
  return all;
}

}  // namespace plait::cuda
