#include "plugins/support/plain/plain.hpp"

namespace plait::support {

std::vector<plait_kernel_item> plain_kernels(const char* device) {
  std::vector<plait_kernel_item> all;
  for (auto* add : {add_plain_map, add_plain_matmul, add_plain_reduce, add_plain_softmax,
                    add_plain_cross_entropy, add_plain_norm, add_plain_gather, add_plain_layout,
                    add_plain_random})
    add(all, device);
  return all;
}

}  // namespace plait::support
