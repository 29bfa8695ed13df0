// split_halves and join_halves: four elements a thread. kit/ops/halves.hpp defines the bits.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/halves_args.hpp"

namespace plait::cuda {
namespace {

__device__ __forceinline__ void split(const HalvesArgs& a, int64_t i) {
  const uint32_t v = __float_as_uint(a.x[i]);
  const bool nan = (v & 0x7fffffffu) > 0x7f800000u;
  a.high[i] = static_cast<uint16_t>((nan ? v | 0x400000u : v + 0x8000u) >> 16);
  a.low[i] = nan ? int16_t{0} : static_cast<int16_t>(v & 0xffffu);
}

__device__ __forceinline__ void join(const HalvesArgs& a, int64_t i) {
  const auto low = static_cast<uint32_t>(static_cast<int32_t>(a.low[i]));
  a.x[i] = __uint_as_float((static_cast<uint32_t>(a.high[i]) << 16) + low);
}

}  // namespace

// Neighbouring threads take neighbouring elements.
PLAIT_GLOBAL(split_halves, HalvesArgs, kHalvesBlock) {
  for (int64_t i = thread_index(); i < a.n; i += thread_count()) split(a, i);
}

PLAIT_GLOBAL(join_halves, HalvesArgs, kHalvesBlock) {
  for (int64_t i = thread_index(); i < a.n; i += thread_count()) join(a, i);
}

}  // namespace plait::cuda
