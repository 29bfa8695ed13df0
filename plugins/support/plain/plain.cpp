#include "plugins/support/plain/plain.hpp"

namespace plait::support {

std::vector<plait_kernel_item> plain_kernels(const char* device) {
  std::vector<plait_kernel_item> all;
  add_plain_families(all, device);
  return all;
}

}  // namespace plait::support
