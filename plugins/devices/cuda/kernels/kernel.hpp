// The host side of kernels: launching a __global__ function, and the list of kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <plait/plugin.hpp>

#include "plugins/devices/cuda/device.hpp"

namespace plait::cuda {

// All kernels of the device. Each file X.cpp of this folder appends its own in add_X(); the build
// makes the list.
std::vector<plait_kernel_item> kernels();
void add_families(std::vector<plait_kernel_item>& out);

// The extents of a grid of blocks.
struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

// The most blocks that a grid has: along x, and along y and z.
constexpr int64_t kMostBlocksX = 0x7fffffff, kMostBlocksY = 65535;

inline unsigned blocks_of_grid(int64_t blocks, int64_t most) {
  if (blocks > most)
    fail(PLAIT_ERR_INVALID, "[cuda] an operand needs a grid of " + std::to_string(blocks) +
                                " blocks, expected at most " + std::to_string(most) +
                                "; use smaller tensors");
  return static_cast<unsigned>(blocks);
}
// Blocks of `per_block` items that cover `count` items, along x or along y of a grid.
inline unsigned blocks_for(int64_t count, int64_t per_block) {
  return blocks_of_grid((count + per_block - 1) / per_block, kMostBlocksX);
}
inline unsigned blocks_along_y(int64_t count, int64_t per_block) {
  return blocks_of_grid((count + per_block - 1) / per_block, kMostBlocksY);
}
// The same, but at most `most`: of a kernel that walks in strides of the grid.
inline unsigned blocks_of_stride(int64_t count, int64_t per_block, int64_t most = kMostBlocksX) {
  return static_cast<unsigned>(std::min((count + per_block - 1) / per_block, most));
}

// A loaded __global__ function. Copies refer to the same function, which lives as long as the
// device.
class Function {
 public:
  Function() = default;
  // module: the file kernels/<module>.cu. dynamic_shared: most bytes of it that a launch asks for.
  Function(plait_device* device, const char* module, const char* name, unsigned dynamic_shared = 0)
      : function_(device_of(device).function(module, name, dynamic_shared)), name_(name) {}
  // name: a literal.
  Function(CUfunction loaded, const char* name) : function_(loaded), name_(name) {}

  // Puts a launch on the queue; a grid without blocks is none. args: the struct that the function
  // takes.
  template <class Args>
  void launch(plait_queue* queue, Grid grid, unsigned block, const Args& args,
              unsigned dynamic_shared = 0) const {
    static_assert(sizeof(Args) <= 4096, "the parameters of a kernel are at most 4 KiB");
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
    void* parameters[] = {const_cast<Args*>(&args)};
    const CUresult r =
        driver().cuLaunchKernel(function_, grid.x, grid.y, grid.z, block, 1, 1, dynamic_shared,
                                stream_of(queue), parameters, nullptr);
    if (r != CUDA_SUCCESS) check(r, std::string("launching ") + name_);
  }

 private:
  CUfunction function_ = nullptr;
  const char* name_ = "";
};

}  // namespace plait::cuda
