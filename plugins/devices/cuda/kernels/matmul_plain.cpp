// matmul on the device, of every type and layout, in double.
#include "plugins/devices/cuda/matmul/plain.hpp"

namespace plait::cuda {

void add_matmul_plain(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<PlainMatmul>("plain", "matmul", "cuda", 0));
}

}  // namespace plait::cuda
