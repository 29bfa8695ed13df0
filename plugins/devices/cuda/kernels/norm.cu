// layer_norm, rms_norm and their gradients in double.
//   layer: xh = (x - mean) * rstd, rstd = 1/sqrt(var + eps)
//   rms:   xh = x * rstd, rstd = 1/sqrt(mean(x^2) + eps)
//   y = xh * gain (+ bias)
//   dx = rstd * (g - mean(g) - xh * mean(g * xh)) with g = dy * gain; rms lacks mean(g)
//   d_gain = sum over rows of dy * xh, d_bias = sum over rows of dy
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/norm_args.hpp"

namespace plait::cuda {

// A block for each row.
PLAIT_GLOBAL(norm_plain, NormArgs, 256) {
  const auto cols = static_cast<double>(a.cols);
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const int64_t begin = row * a.cols;
    double mean = 0, square = 0;
    if (a.layer) {
      for (int64_t i = threadIdx.x; i < a.cols; i += blockDim.x) mean += get(a.x, begin + i);
      mean = over_block<Sum>(mean, 0.0) / cols;
    }
    for (int64_t i = threadIdx.x; i < a.cols; i += blockDim.x) {
      const double from_mean = get(a.x, begin + i) - mean;
      square += from_mean * from_mean;
    }
    const double rstd = 1 / sqrt(over_block<Sum>(square, 0.0) / cols + a.eps);
    for (int64_t i = threadIdx.x; i < a.cols; i += blockDim.x) {
      const double gain = get(a.gain, i), bias = a.layer ? get(a.bias, i) : 0;
      set(a.y, begin + i, (get(a.x, begin + i) - mean) * rstd * gain + bias);
    }
    if (threadIdx.x != 0) continue;
    if (a.layer) set(a.mean, row, mean);
    set(a.rstd, row, rstd);
  }
}

namespace {

__device__ double normalized(const NormGradArgs& a, int64_t row, int64_t i) {
  const double mean = a.layer ? get(a.mean, row) : 0;
  return (get(a.x, row * a.cols + i) - mean) * get(a.rstd, row);
}

}  // namespace

// dx: a block for each row.
PLAIT_GLOBAL(norm_grad_plain_rows, NormGradArgs, 256) {
  const auto cols = static_cast<double>(a.cols);
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const int64_t begin = row * a.cols;
    double mean_g = 0, mean_gx = 0;
    for (int64_t i = threadIdx.x; i < a.cols; i += blockDim.x) {
      const double g = get(a.dy, begin + i) * get(a.gain, i);
      mean_g += g;
      mean_gx += g * normalized(a, row, i);
    }
    mean_g = a.layer ? over_block<Sum>(mean_g, 0.0) / cols : 0;
    mean_gx = over_block<Sum>(mean_gx, 0.0) / cols;
    const double rstd = get(a.rstd, row);
    for (int64_t i = threadIdx.x; i < a.cols; i += blockDim.x) {
      const double g = get(a.dy, begin + i) * get(a.gain, i);
      set(a.dx, begin + i, rstd * (g - mean_g - normalized(a, row, i) * mean_gx));
    }
  }
}

// d_gain and d_bias: a block for 32 channels, of which each warp adds every 8th row; then the
// warps' sums in their order.
PLAIT_GLOBAL(norm_grad_plain_channels, NormGradArgs, 256) {
  __shared__ double of_warp[2][8][32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int64_t first = int64_t{blockIdx.x} * 32; first < a.cols; first += int64_t{gridDim.x} * 32) {
    const int64_t i = first + lane;
    double d_gain = 0, d_bias = 0;
    for (int64_t row = warp; i < a.cols && row < a.rows; row += 8) {
      const double dy = get(a.dy, row * a.cols + i);
      d_gain += dy * normalized(a, row, i);
      d_bias += dy;
    }
    __syncthreads();  // the sums before these may still be read
    of_warp[0][warp][lane] = d_gain;
    of_warp[1][warp][lane] = d_bias;
    __syncthreads();
    if (warp != 0 || i >= a.cols) continue;
    for (int w = 1; w < 8; ++w) {
      d_gain += of_warp[0][w][lane];
      d_bias += of_warp[1][w][lane];
    }
    set(a.d_gain, i, d_gain);
    if (a.layer) set(a.d_bias, i, d_bias);
  }
}

}  // namespace plait::cuda
