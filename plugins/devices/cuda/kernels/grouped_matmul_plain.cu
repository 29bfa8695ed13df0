// Where groups begin; and the products of groups of every type, a thread for each element of y, the
// sum in order, in double.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/grouped_matmul.cuh"

namespace plait::cuda {
namespace {

// The lanes of a warp up to this one, combined.
template <class Op>
__device__ int32_t so_far(int32_t v) {
  const unsigned lane = threadIdx.x;
  for (unsigned step = 1; step < 32; step *= 2) {
    const int32_t other = __shfl_up_sync(kWholeWarp, v, step);
    if (lane >= step) v = Op::join(v, other);
  }
  return v;
}

}  // namespace

// One warp. A group begins at the greatest offset so far, as rows_of_group() of kit/ops/grouped.hpp
// has it.
PLAIT_GLOBAL(grouped_ranges, GroupRangesArgs, 32) {
  const auto lane = static_cast<int32_t>(threadIdx.x);
  const auto rows = static_cast<int32_t>(a.rows);
  if (lane == 0) a.bounds[0] = 0, a.bounds[a.groups + 2] = rows;
  int32_t before = 0;
  for (int32_t from = 0; from <= a.first + a.groups; from += 32) {
    const int32_t i = from + lane;
    const int64_t offset = i <= a.total ? get_index(a.offsets, i) : 0;
    const int32_t here = offset < 0 ? 0 : offset > a.rows ? rows : static_cast<int32_t>(offset);
    const int32_t begin = so_far<Max>(max(here, before));
    if (i >= a.first && i <= a.first + a.groups) a.bounds[1 + i - a.first] = begin;
    before = __shfl_sync(kWholeWarp, begin, 31);
  }
  __syncwarp();
  int32_t tiles = 0;
  for (int32_t from = 0; from <= a.groups + 2; from += 32) {
    const int32_t s = from + lane;
    const int32_t here =
        s < a.groups + 2 ? (a.bounds[s + 1] - a.bounds[s] + a.tile - 1) / a.tile : 0;
    const int32_t all = tiles + so_far<Sum>(here);
    if (s <= a.groups + 2) a.tiles[s] = all - here;
    tiles = __shfl_sync(kWholeWarp, all, 31);
  }
}

namespace {

template <class T>
__device__ double term(const void* x, int64_t i) {
  return static_cast<double>(load(static_cast<const T*>(x) + i));
}

template <class T>
__device__ void element_of_product(const GroupedMatmulArgs& a) {
  const int64_t e = thread_index();
  if (e >= a.rows * a.outputs) return;
  const int64_t row = e / a.outputs, o = e - row * a.outputs;
  const int32_t group = segment_of(a.bounds, a.groups, row) - 1;
  double sum = 0;
  if (has_matrix(a, group)) {
    const int64_t x = row * a.inputs, b = group * a.inputs * a.outputs;
    for (int64_t i = 0; i < a.inputs; ++i)
      sum = fma(term<T>(a.a, x + i),
                term<T>(a.b, b + (a.transpose_b ? o * a.inputs + i : i * a.outputs + o)), sum);
  }
  set(a.y, e, sum);
}

template <class T>
__device__ void element_of_grad(const GroupedMatmulArgs& a) {
  const int64_t e = thread_index(), matrix = a.inputs * a.outputs;
  if (e >= a.groups * matrix) return;
  const int64_t group = e / matrix, i = (e - group * matrix) / a.outputs, o = e % a.outputs;
  double sum = 0;
  for (int64_t r = a.bounds[group + 1]; r < a.bounds[group + 2]; ++r)
    sum = fma(term<T>(a.a, r * a.inputs + i), term<T>(a.b, r * a.outputs + o), sum);
  set(a.y, e, sum);
}

}  // namespace

#define GROUPED_KERNELS(T, name)                                                   \
  PLAIT_GLOBAL(grouped_plain_##name, GroupedMatmulArgs, kGroupedPlainBlock) {      \
    element_of_product<T>(a);                                                      \
  }                                                                                \
  PLAIT_GLOBAL(grouped_grad_plain_##name, GroupedMatmulArgs, kGroupedPlainBlock) { \
    element_of_grad<T>(a);                                                         \
  }

GROUPED_KERNELS(float, f32)
GROUPED_KERNELS(double, f64)
GROUPED_KERNELS(bf16, bf16)
GROUPED_KERNELS(f16, f16)
#undef GROUPED_KERNELS

}  // namespace plait::cuda
