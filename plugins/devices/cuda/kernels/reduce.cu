// reduce in double over any axes: a block for each output, or a thread where the sums are short.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/reduce_args.hpp"

namespace plait::cuda {
namespace {

// Where element i of a row-major tensor of these dims lies in x.
__device__ int64_t offset_of(const ReduceDims& dims, int64_t i) {
  int64_t at = 0;
  for (int32_t d = dims.rank; d-- > 0; i /= dims.extents[d])
    at += i % dims.extents[d] * dims.strides[d];
  return at;
}

// Folds elements first, first + step, .. of the sum that begins at `from`.
__device__ double fold(const ReduceArgs& a, int64_t from, int64_t first, int64_t step) {
  double total = a.kind == kReduceMax ? -kInfinity : 0;
  for (int64_t i = first; i < a.summed; i += step) {
    const double x = get(a.x, from + offset_of(a.reduced, i));
    if (a.kind == kReduceMax)
      total = max_nan(total, x);
    else
      total += a.kind == kReduceSquares ? x * x : x;
  }
  return total;
}

}  // namespace

PLAIT_GLOBAL(reduce_plain, ReduceArgs, 256) {
  if (a.by_block) {
    for (int64_t o = blockIdx.x; o < a.outputs; o += gridDim.x) {
      const double part = fold(a, offset_of(a.kept, o), threadIdx.x, blockDim.x);
      const double total =
          a.kind == kReduceMax ? over_block<Max>(part, -kInfinity) : over_block<Sum>(part, 0.0);
      if (threadIdx.x == 0) set(a.y, o, total);
    }
    return;
  }
  const int64_t step = thread_count();
  for (int64_t o = thread_index(); o < a.outputs; o += step)
    set(a.y, o, fold(a, offset_of(a.kept, o), 0, 1));
}

}  // namespace plait::cuda
