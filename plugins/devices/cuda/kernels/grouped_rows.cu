// group_rows, ungroup_rows and its gradient. Every row and every sum has one owner; the summands of
// a token have the order of its places.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/grouped_rows_args.hpp"
#include "plugins/devices/cuda/kernels/row_tiles.cuh"

namespace plait::cuda {
namespace {

// The first row whose group is `group` or a later one.
__device__ int64_t first_of(const GroupPlaceArgs& a, int64_t group) {
  int64_t low = 0, high = a.count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (a.keys[middle] < group)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

}  // namespace

PLAIT_GLOBAL(group_place, GroupPlaceArgs, kGroupedBlock) {
  const int64_t i = thread_index();
  if (i < a.count) a.place[a.places[i]] = static_cast<int32_t>(i);
  if (i <= a.groups) a.offsets[i] = static_cast<int32_t>(first_of(a, i));
}

namespace {

template <class U>
__device__ void copy_rows(const GroupCopyArgs& a) {
  const RowTile t = row_tile(a.log_lanes);
  if (t.row >= a.count) return;
  const U* const from = static_cast<const U*>(a.x) + a.places[t.row] / a.each * a.units;
  U* const to = static_cast<U*>(a.rows) + t.row * a.units;
  for (int64_t u = t.first; u < a.units; u += t.step) to[u] = from[u];
}

// Elements of any float type as A: float, of types of at most 32 bits, or double.
template <class A>
__device__ __forceinline__ A read(const AnyPointer& x, int64_t i) {
  if constexpr (sizeof(A) == 8) return get(x, i);
  if (x.dtype == PLAIT_BF16) return load(static_cast<const bf16*>(x.data) + i);
  if (x.dtype == PLAIT_F16) return load(static_cast<const f16*>(x.data) + i);
  return static_cast<const float*>(x.data)[i];
}
template <class A>
__device__ __forceinline__ void write(const AnyPointer& x, int64_t i, A v) {
  if constexpr (sizeof(A) == 8)
    set(x, i, v);
  else if (x.dtype == PLAIT_BF16)
    store(static_cast<bf16*>(x.data) + i, v);
  else if (x.dtype == PLAIT_F16)
    store(static_cast<f16*>(x.data) + i, v);
  else
    static_cast<float*>(x.data)[i] = v;
}

template <class A>
__device__ void add_up(const UngroupArgs& a) {
  const RowTile t = row_tile(a.log_lanes);
  if (t.row >= a.tokens) return;
  const int64_t first = t.row * a.each, rows = a.tokens * a.each;
  for (int64_t c = t.first; c < a.width; c += t.step) {
    A sum = 0;
    for (int64_t i = first; i < first + a.each; ++i) {
      const int64_t at = get_index(a.place, i);
      if (at < 0 || at >= rows) continue;
      const A weight = a.weights.data ? read<A>(a.weights, i) : A(1);
      sum = fma(weight, read<A>(a.rows, at * a.width + c), sum);
    }
    write<A>(a.y, t.row * a.width + c, sum);
  }
}

// A warp for each row.
template <class A>
__device__ void spread(const UngroupGradArgs& a) {
  const int64_t row = thread_index() / 32;
  if (row >= a.count) return;
  const int64_t i = a.source[row], lane = threadIdx.x % 32;
  const A weight = i < 0 ? A(0) : a.weights.data ? read<A>(a.weights, i) : A(1);
  A dot = 0;
  for (int64_t c = lane; c < a.width; c += 32) {
    const int64_t e = row * a.width + c;
    const A dy = i < 0 ? A(0) : read<A>(a.dy, i / a.each * a.width + c);
    if (i >= 0 && a.rows.data) dot = fma(read<A>(a.rows, e), dy, dot);
    write<A>(a.drows, e, weight * dy);
  }
  if (!a.dweights.data) return;
  dot = over_warp<Sum>(dot);
  if (lane == 0 && i >= 0) write<A>(a.dweights, i, dot);
}

}  // namespace

PLAIT_GLOBAL(group_copy_1, GroupCopyArgs, 256) { copy_rows<uint8_t>(a); }
PLAIT_GLOBAL(group_copy_2, GroupCopyArgs, 256) { copy_rows<uint16_t>(a); }
PLAIT_GLOBAL(group_copy_4, GroupCopyArgs, 256) { copy_rows<uint32_t>(a); }
PLAIT_GLOBAL(group_copy_8, GroupCopyArgs, 256) { copy_rows<uint64_t>(a); }
PLAIT_GLOBAL(group_copy_16, GroupCopyArgs, 256) { copy_rows<uint4>(a); }

PLAIT_GLOBAL(ungroup_rows_f32, UngroupArgs, 256) { add_up<float>(a); }
PLAIT_GLOBAL(ungroup_rows_f64, UngroupArgs, 256) { add_up<double>(a); }

// The gradient in three launches: no row has a source, then each names its own.
PLAIT_GLOBAL(ungroup_grad_start, UngroupGradArgs, kGroupedBlock) {
  const int64_t row = thread_index();
  if (row < a.count) a.source[row] = -1;
}
// Where several indices name one row, which they should not, the last has it.
PLAIT_GLOBAL(ungroup_grad_sources, UngroupGradArgs, kGroupedBlock) {
  const int64_t i = thread_index();
  if (i >= a.count) return;
  const int64_t at = get_index(a.place, i);
  if (at >= 0 && at < a.count) atomicMax(&a.source[at], static_cast<int32_t>(i));
  if (a.dweights.data) set(a.dweights, i, 0);
}
PLAIT_GLOBAL(ungroup_grad_f32, UngroupGradArgs, kGroupedBlock) { spread<float>(a); }
PLAIT_GLOBAL(ungroup_grad_f64, UngroupGradArgs, kGroupedBlock) { spread<double>(a); }

}  // namespace plait::cuda
