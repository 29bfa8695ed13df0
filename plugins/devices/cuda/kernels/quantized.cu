// quantize, and what reads its results, of every type; kit/quantized.hpp defines the bits.
#include "plugins/devices/cuda/kernels/activation.cuh"
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/quantized.cuh"

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
  const int64_t columns = a.row.columns;
  const bool valid = column < columns;
  const float w = valid ? static_cast<float>(get(a.x, row * columns + column)) : 0.0f;
  const uint32_t most = over_warp<Greatest>(__float_as_uint(w) & 0x7fffffffu);
  constexpr uint32_t kInfinite = 0x7f800000u, kLeast = 0x04000000u;  // 2^-119
  const bool zero = most < kLeast, finite = most < kInfinite;
  constexpr float kSteps = 127, kRound = 12582912;  // 1.5 * 2^23: a sum with it has no fraction
  float scale = zero ? 0.0f : __uint_as_float(0x7fc00000u);
  uint8_t q = 128;
  if (!zero && finite) {
    constexpr float kMost = 0x1.fffffep120f;  // 2^-7 of the greatest float: 128 * scale is finite
    scale = __uint_as_float(most) / kSteps;
    if (scale > kMost) scale = kMost;
    float near = w / scale;
    near = (near < -kSteps ? -kSteps : near > kSteps ? kSteps : near) + kRound;
    q = static_cast<uint8_t>(static_cast<int32_t>(near - kRound) + 128);
  }
  if (valid) a.q[row * columns + column] = q;
  if (lane == 0) a.scale[block] = scale;
}

// A thread for each block of 64 columns, a block of threads for the blocks that share least and
// step.
PLAIT_GLOBAL(quantize_nf4, QuantizeArgs, kQuantizedBlock) {
  static_assert(kQuantizedBlock == kit::kNf4Group / kit::kNf4Block);
  constexpr uint32_t kInfinite = 0x7f800000u, kLeast = 0x04000000u;  // 2^-119
  constexpr float kSteps = 255;
  const int64_t groups = a.row.floats() / 2, row = blockIdx.x / groups,
                group = blockIdx.x - row * groups;
  const int64_t block = group * kQuantizedBlock + threadIdx.x, first = block * kit::kNf4Block;
  const int64_t columns = a.row.columns;
  const int n = static_cast<int>(first >= columns                   ? 0
                                 : columns - first < kit::kNf4Block ? columns - first
                                                                    : kit::kNf4Block);
  uint32_t most = 0;
  for (int i = 0; i < n; ++i) {
    const uint32_t bits =
        __float_as_uint(static_cast<float>(get(a.x, row * columns + first + i))) & 0x7fffffffu;
    if (bits > most) most = bits;
  }
  if (most < kLeast) most = 0;
  __shared__ uint32_t least[kQuantizedBlock], top[kQuantizedBlock];
  least[threadIdx.x] = n > 0 ? most : 0xffffffffu;
  top[threadIdx.x] = most;
  for (unsigned half = kQuantizedBlock / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    const uint32_t other_least = least[threadIdx.x + half], other_top = top[threadIdx.x + half];
    if (other_least < least[threadIdx.x]) least[threadIdx.x] = other_least;
    if (other_top > top[threadIdx.x]) top[threadIdx.x] = other_top;
  }
  __syncthreads();
  const bool finite = top[0] < kInfinite;
  const float low = __uint_as_float(least[0]), high = __uint_as_float(top[0]);
  float step = finite ? (high - low) / kSteps : 0.0f;
  if (step < __uint_as_float(kLeast)) step = 0;
  if (fmaf(step, kSteps, low) > high) step = __uint_as_float(__float_as_uint(step) - 1);
  if (threadIdx.x == 0) {
    a.scale[(row * groups + group) * 2] = finite ? low : __uint_as_float(0x7fc00000u);
    a.scale[(row * groups + group) * 2 + 1] = step;
  }
  if (n == 0) return;
  float code = 0;
  if (finite && step > 0) {
    code = (__uint_as_float(most) - low) / step + 0.5f;
    code = static_cast<float>(static_cast<int>(code > kSteps ? kSteps : code));
  }
  const float scale = finite ? fmaf(step, code, low) : 0.0f;
  uint8_t* q = a.q + row * a.row.bytes();
  q[a.row.number_bytes() + block] = static_cast<uint8_t>(code);
  for (int i = 0; i < n; i += 2) {
    uint32_t pair = kit::kNf4Zero * 17;
    for (int j = i; j < i + 2 && j < n && scale > 0; ++j) {
      const float w = static_cast<float>(get(a.x, row * columns + first + j));
      const uint32_t number = kit::quant_detail::nearest_nf4(w / scale);
      pair = j == i ? (pair & 0xf0u) | number : (pair & 0xfu) | number << 4;
    }
    q[(first + i) / 2] = static_cast<uint8_t>(pair);
  }
}

// A thread for each element of y.
PLAIT_GLOBAL(rows_of_quantized, RowsOfQuantizedArgs, kQuantizedBlock) {
  const int64_t e = thread_index(), columns = a.row.columns;
  if (e >= a.count * columns) return;
  const int64_t i = e / columns, id = a.index.data ? get_index(a.index, i) : i, row = id - a.first;
  const bool known = id >= 0 && id < a.total;
  double w = known ? 0.0 : static_cast<double>(__uint_as_float(0x7fc00000u));
  if (known && row >= 0 && row < a.rows)
    w = quantized_weight(a.row, a.q, a.scale, row, e - i * columns);
  set(a.y, e, w);
}

// A thread for each element of y, the sum over k in order, in double.
PLAIT_GLOBAL(matmul_quantized_plain, MatmulQuantizedArgs, kQuantizedBlock) {
  const int64_t e = thread_index();
  if (e >= a.m * a.n) return;
  const int64_t i = e / a.n, j = e - i * a.n;
  double sum = a.c.data ? get(a.c, e) : a.bias.data ? get(a.bias, j) : 0;
  for (int64_t k = 0; k < a.k; ++k) {
    const int64_t row = a.transpose_b ? j : k, column = a.transpose_b ? k : j;
    sum = fma(get(a.a, i * a.k + k), quantized_weight(a.row, a.q, a.scale, row, column), sum);
  }
  set(a.y, e, activate(a.activation, sum));
}

}  // namespace plait::cuda
