#include "plugins/devices/cuda/kernels/map_plain.hpp"

namespace plait::cuda {

void add_map_plain(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<PlainMap>("plain", "map", "cuda", 0));
}

}  // namespace plait::cuda
