#include "plugins/devices/cpu/kernels/kernels.hpp"

#include "plugins/devices/cpu/device.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::cpu {

std::vector<plait_kernel_item> kernels() {
  std::vector<plait_kernel_item> all;
  add_families(all);
  const auto plain = support::plain_kernels(kDevice);
  all.insert(all.end(), plain.begin(), plain.end());
  return all;
}

}  // namespace plait::cpu
