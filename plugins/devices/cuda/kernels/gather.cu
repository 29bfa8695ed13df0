// gather and one_hot: rows by their numbers.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/gather_args.hpp"
#include "plugins/devices/cuda/kernels/row_tiles.cuh"

namespace plait::cuda {
namespace {

// The row of an index outside of [0, total) is `unknown`; that of another part of the table zeros,
// so that the results of all parts add up.
template <class U>
__device__ void gather_rows(const GatherArgs& a) {
  const RowTile t = row_tile(a.log_lanes);
  if (t.row >= a.count) return;
  const int64_t id = get_index(a.index, t.row), row = id - a.first;
  U* to = static_cast<U*>(a.y) + t.row * a.units;
  if (id >= 0 && id < a.total && row >= 0 && row < a.rows) {
    const U* from = static_cast<const U*>(a.table) + row * a.units;
    for (int64_t u = t.first; u < a.units; u += t.step) to[u] = from[u];
  } else {
    const U value = repeated<U>(id >= 0 && id < a.total ? 0 : a.unknown);
    for (int64_t u = t.first; u < a.units; u += t.step) to[u] = value;
  }
}

}  // namespace

PLAIT_GLOBAL(gather_1, GatherArgs, 256) { gather_rows<uint8_t>(a); }
PLAIT_GLOBAL(gather_2, GatherArgs, 256) { gather_rows<uint16_t>(a); }
PLAIT_GLOBAL(gather_4, GatherArgs, 256) { gather_rows<uint32_t>(a); }
PLAIT_GLOBAL(gather_8, GatherArgs, 256) { gather_rows<uint64_t>(a); }
PLAIT_GLOBAL(gather_16, GatherArgs, 256) { gather_rows<uint4>(a); }

PLAIT_GLOBAL(one_hot, OneHotArgs, 256) {
  const RowTile t = row_tile(a.log_lanes);
  if (t.row >= a.count) return;
  const int64_t hot = get_index(a.index, t.row);
  for (int64_t j = t.first; j < a.depth; j += t.step)
    set(a.y, t.row * a.depth + j, j == hot ? 1.0 : 0.0);
}

}  // namespace plait::cuda
