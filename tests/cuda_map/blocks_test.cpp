// The number of blocks of a launch.
#include <doctest/doctest.h>

#include "plugins/devices/cuda/kernels/kernel.hpp"

namespace cuda_map {

using namespace plait::cuda;

TEST_CASE("a grid has the blocks that cover all items, or the launch is an error") {
  CHECK(blocks_for(0, 256) == 0);
  CHECK(blocks_for(1, 256) == 1);
  CHECK(blocks_for(257, 256) == 2);
  CHECK(blocks_for(int64_t{0x7fffffff} * 256, 256) == 0x7fffffffu);
  CHECK_THROWS_WITH(blocks_for(int64_t{0x7fffffff} * 256 + 1, 256),
                    "[cuda] an operand needs a grid of 2147483648 blocks, expected at most "
                    "2147483647; use smaller tensors");
  CHECK(blocks_along_y(65535 * 8, 8) == 65535);
  CHECK_THROWS_WITH(blocks_along_y(65535 * 8 + 1, 8), doctest::Contains("65536 blocks"));
}

TEST_CASE("a kernel that walks in strides of the grid has at most as many as it may") {
  CHECK(blocks_of_stride(int64_t{1} << 50, 256) == 0x7fffffffu);
  CHECK(blocks_of_stride(1000, 10, 64) == 64);
  CHECK(blocks_of_stride(1000, 10, 200) == 100);
}

}  // namespace cuda_map
