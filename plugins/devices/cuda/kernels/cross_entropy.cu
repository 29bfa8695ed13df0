// cross_entropy and its gradient in double: a block for each row. A label below 0 is ignored; one
// from `total` on gives NaN, and nothing is read for it.
#include "plugins/devices/cuda/kernels/cross_entropy_args.hpp"
#include "plugins/devices/cuda/kernels/device.cuh"

namespace plait::cuda {
namespace {

// Where the label's class lies in this part; -1: not in it.
__device__ int64_t place_of(const CrossEntropyArgs& a, int64_t label) {
  if (label < a.first) return -1;
  const int64_t at = label - a.first;
  return at < a.valid ? at : -1;
}

// loss = lse - (1-s) x[label] - s/C sum(x); of a part without the lse
__device__ double loss_of(const CrossEntropyArgs& a, int64_t row, double lse, double total) {
  const int64_t label = get_index(a.label, row), at = place_of(a, label);
  if (label >= a.total) return kNan;
  if (label < 0) return 0;
  const double s = a.smoothing, to_label = at < 0 ? 0 : (1 - s) * get(a.x, row * a.cols + at),
               to_all = s > 0 ? s / static_cast<double>(a.total) * total : 0;
  return (a.part ? 0 : lse) - to_label - to_all;
}

}  // namespace

PLAIT_GLOBAL(cross_entropy_plain, CrossEntropyArgs, 256) {
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const int64_t begin = row * a.cols, end = begin + a.valid;
    double greatest = -kInfinity, sum = 0, total = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
      greatest = max_nan(greatest, get(a.x, i));
    greatest = over_block<Max>(greatest, -kInfinity);
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
      const double x = get(a.x, i);
      sum += exp(x - greatest);
      total += x;
    }
    sum = over_block<Sum>(sum, 0.0);
    total = over_block<Sum>(total, 0.0);
    if (threadIdx.x != 0) continue;
    // Other parts may have classes that are possible.
    const bool nothing = a.part && greatest == -kInfinity;
    const double lse = nothing ? greatest : greatest + log(sum);
    set(a.loss, row, loss_of(a, row, lse, total));
    set(a.log_sum_exp, row, lse);
  }
}

// dx = d_loss * (exp(x - lse) - (1-s) onehot - s/C), 0 in the padding
PLAIT_GLOBAL(cross_entropy_grad_plain, CrossEntropyArgs, 256) {
  const double s = a.smoothing, to_all = s / static_cast<double>(a.total);
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const int64_t label = get_index(a.label, row), at = place_of(a, label);
    const double d_loss = get(a.loss, row), lse = get(a.log_sum_exp, row);
    for (int64_t i = threadIdx.x; i < a.cols; i += blockDim.x) {
      const double x = get(a.x, row * a.cols + i), target = (i == at ? 1 - s : 0) + to_all;
      double dx = d_loss * (exp(x - lse) - target);
      if (label >= a.total) dx = kNan;
      if (label < 0 || i >= a.valid) dx = 0;
      set(a.dx, row * a.cols + i, dx);
    }
  }
}

}  // namespace plait::cuda
