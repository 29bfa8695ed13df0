// quantize and matmul_quantized of every type; kit/ops/quantized.hpp defines the bits of the first.
#include "plugins/devices/cuda/kernels/activation.cuh"
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/quantized_args.hpp"

namespace plait::cuda {
namespace {

constexpr int kQuantBlock = 32;  // columns of a scale: one for each lane of a warp

struct Greatest {
  static __device__ uint32_t join(uint32_t a, uint32_t b) { return a > b ? a : b; }
};

}  // namespace

// A warp for each block of columns.
PLAIT_GLOBAL(quantize, QuantizeArgs, kQuantizedBlock) {
  const int64_t block = thread_index() / kQuantBlock;
  if (block >= a.rows * a.blocks) return;
  const int lane = static_cast<int>(threadIdx.x % kQuantBlock);
  const int64_t row = block / a.blocks, column = (block - row * a.blocks) * kQuantBlock + lane;
  const bool valid = column < a.columns;
  const float w = valid ? static_cast<float>(get(a.x, row * a.columns + column)) : 0.0f;
  const uint32_t most = over_warp<Greatest>(__float_as_uint(w) & 0x7fffffffu);
  constexpr uint32_t kInfinite = 0x7f800000u, kLeast = 0x04000000u;  // 2^-119
  const bool zero = most < kLeast, finite = most < kInfinite;
  constexpr float kSteps = 127, kRound = 12582912;  // 1.5 * 2^23: a sum with it has no fraction
  float scale = zero ? 0.0f : __uint_as_float(0x7fc00000u);
  uint8_t q = 128;
  if (!zero && finite) {
    scale = __uint_as_float(most) / kSteps;
    float near = w / scale;
    near = (near < -kSteps ? -kSteps : near > kSteps ? kSteps : near) + kRound;
    q = static_cast<uint8_t>(static_cast<int32_t>(near - kRound) + 128);
  }
  if (valid) a.q[row * a.columns + column] = q;
  if (lane == 0) a.scale[block] = scale;
}

// A thread for each element of y, the sum over k in order, in double.
PLAIT_GLOBAL(matmul_quantized_plain, MatmulQuantizedArgs, kQuantizedBlock) {
  const int64_t e = thread_index();
  if (e >= a.m * a.n) return;
  const int64_t i = e / a.n, j = e - i * a.n;
  const uint8_t* q = a.q + j * a.k;
  const float* scale = a.scale + j * a.blocks;
  double sum = a.c.data ? get(a.c, e) : a.bias.data ? get(a.bias, j) : 0;
  for (int64_t k = 0; k < a.k; ++k) {
    const double w = static_cast<double>(scale[k / kQuantBlock]) * (static_cast<int>(q[k]) - 128);
    sum = fma(get(a.a, i * a.k + k), w, sum);
  }
  set(a.y, e, activate(a.activation, sum));
}

}  // namespace plait::cuda
