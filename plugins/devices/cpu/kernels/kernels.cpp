#include "plugins/devices/cpu/kernels/kernels.hpp"

#include "plugins/devices/cpu/device.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::cpu {

std::vector<plait_kernel_item> kernels() {
  std::vector<plait_kernel_item> all;
  for (auto* add : {add_matmul, add_matmul_f64, add_map, add_reduce, add_softmax, add_cross_entropy,
                    add_norm, add_gather, add_layout, add_random})
    add(all);
  const auto plain = support::plain_kernels(kDevice);
  all.insert(all.end(), plain.begin(), plain.end());
  return all;
}

}  // namespace plait::cpu
