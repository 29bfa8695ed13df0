// The fastest of cuBLASLt's algorithms for a product, found by measuring on this GPU.
#pragma once

#include "plugins/devices/cuda/matmul/product.hpp"

namespace plait::cuda {

// One of the first 8 that the heuristic names: its first choice, unless another is clearly faster.
// The answer is kept on disk (device.cache), by device, library and description. A product whose
// operands find no memory is not measured, with a warning. For products that were found. Blocks.
cublasLtMatmulAlgo_t fastest_algorithm(Device& device, CublasLtHandle& handle,
                                       const ProductDesc& desc);

}  // namespace plait::cuda
