// softmax, log_softmax and their gradients in double: a block for each row. An element is written
// by the thread that has read it, so that the result may lie on the input.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/softmax_args.hpp"

namespace plait::cuda {

PLAIT_GLOBAL(softmax_plain, SoftmaxArgs, 256) {
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const int64_t begin = row * a.cols, end = begin + a.cols;
    double greatest = -kInfinity, sum = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
      greatest = max_nan(greatest, get(a.x, i));
    greatest = over_block<Max>(greatest, -kInfinity);
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
      sum += exp(get(a.x, i) - greatest);
    sum = over_block<Sum>(sum, 0.0);
    const double log_sum_exp = greatest + log(sum);
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
      const double x = get(a.x, i);
      set(a.out, i, a.log ? x - log_sum_exp : exp(x - greatest) / sum);
    }
  }
}

// softmax: dx = y * (dy - sum(dy * y)); log_softmax: dx = dy - exp(y) * sum(dy)
PLAIT_GLOBAL(softmax_grad_plain, SoftmaxArgs, 256) {
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const int64_t begin = row * a.cols, end = begin + a.cols;
    double sum = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
      const double dy = get(a.dy, i);
      sum += a.log ? dy : dy * get(a.x, i);
    }
    sum = over_block<Sum>(sum, 0.0);
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
      const double y = get(a.x, i), dy = get(a.dy, i);
      set(a.out, i, a.log ? dy - exp(y) * sum : y * (dy - sum));
    }
  }
}

}  // namespace plait::cuda
