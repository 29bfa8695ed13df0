// slice, pad and concat: rows of bytes are copied. transpose: element by element, or in tiles where
// neither reading nor writing would otherwise be contiguous.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/layout_args.hpp"
#include "plugins/devices/cuda/kernels/row_tiles.cuh"

namespace plait::cuda {
namespace {

template <class U>
__device__ void copy_rows(const LayoutCopyArgs& a) {
  const RowTile t = row_tile(a.log_lanes);
  if (t.row >= a.rows) return;
  U* to = static_cast<U*>(a.to) + t.row * a.to_step;
  if (a.from) {
    const U* from = static_cast<const U*>(a.from) + t.row * a.from_step;
    for (int64_t u = t.first; u < a.units; u += t.step) to[u] = from[u];
  } else {
    for (int64_t u = t.first; u < a.units; u += t.step) to[u] = repeated<U>(0);
  }
}

// A thread for each element of y.
template <class U>
__device__ void transpose_elements(const TransposeArgs& a) {
  const int64_t e = thread_index();
  if (e >= a.count) return;
  int64_t from = 0, rest = e;
  for (int i = 0; i < a.n_dims; ++i) {
    const int64_t next = rest / a.extents[i];
    from += (rest - next * a.extents[i]) * a.x_strides[i];
    rest = next;
  }
  static_cast<U*>(a.y)[e] = static_cast<const U*>(a.x)[from];
}

// A block for each tile of the last dim of y (dim 0 here) and the dim along which x is contiguous.
template <class U>
__device__ void transpose_tiles(const TransposeArgs& a) {
  __shared__ U tile[kTransposeTile][kTransposeTile + 1];
  const int64_t across = (a.extents[0] + kTransposeTile - 1) / kTransposeTile,
                down = (a.rows + kTransposeTile - 1) / kTransposeTile;
  int64_t rest = static_cast<int64_t>(blockIdx.x) / across;
  const int64_t col = (blockIdx.x - rest * across) * kTransposeTile,
                row = (rest - rest / down * down) * kTransposeTile;
  rest /= down;
  const U* x = static_cast<const U*>(a.x);
  U* y = static_cast<U*>(a.y);
  for (int i = 1; i < a.n_dims; ++i) {
    const int64_t next = rest / a.extents[i], at = rest - next * a.extents[i];
    x += at * a.x_strides[i];
    y += at * a.y_strides[i];
    rest = next;
  }
  const int lane = threadIdx.x % kTransposeTile, first = threadIdx.x / kTransposeTile,
            step = blockDim.x / kTransposeTile;
  for (int i = first; i < kTransposeTile; i += step)
    if (row + lane < a.rows && col + i < a.extents[0])
      tile[i][lane] = x[(col + i) * a.x_strides[0] + row + lane];
  __syncthreads();
  for (int i = first; i < kTransposeTile; i += step)
    if (row + i < a.rows && col + lane < a.extents[0])
      y[(row + i) * a.rows_y_stride + col + lane] = tile[lane][i];
}

}  // namespace

PLAIT_GLOBAL(layout_copy_1, LayoutCopyArgs, 256) { copy_rows<uint8_t>(a); }
PLAIT_GLOBAL(layout_copy_2, LayoutCopyArgs, 256) { copy_rows<uint16_t>(a); }
PLAIT_GLOBAL(layout_copy_4, LayoutCopyArgs, 256) { copy_rows<uint32_t>(a); }
PLAIT_GLOBAL(layout_copy_8, LayoutCopyArgs, 256) { copy_rows<uint64_t>(a); }
PLAIT_GLOBAL(layout_copy_16, LayoutCopyArgs, 256) { copy_rows<uint4>(a); }

PLAIT_GLOBAL(transpose_elements_1, TransposeArgs, 256) { transpose_elements<uint8_t>(a); }
PLAIT_GLOBAL(transpose_elements_2, TransposeArgs, 256) { transpose_elements<uint16_t>(a); }
PLAIT_GLOBAL(transpose_elements_4, TransposeArgs, 256) { transpose_elements<uint32_t>(a); }
PLAIT_GLOBAL(transpose_elements_8, TransposeArgs, 256) { transpose_elements<uint64_t>(a); }
PLAIT_GLOBAL(transpose_elements_16, TransposeArgs, 256) { transpose_elements<uint4>(a); }

PLAIT_GLOBAL(transpose_tiles_1, TransposeArgs, 256) { transpose_tiles<uint8_t>(a); }
PLAIT_GLOBAL(transpose_tiles_2, TransposeArgs, 256) { transpose_tiles<uint16_t>(a); }
PLAIT_GLOBAL(transpose_tiles_4, TransposeArgs, 256) { transpose_tiles<uint32_t>(a); }
PLAIT_GLOBAL(transpose_tiles_8, TransposeArgs, 256) { transpose_tiles<uint64_t>(a); }
PLAIT_GLOBAL(transpose_tiles_16, TransposeArgs, 256) { transpose_tiles<uint4>(a); }

}  // namespace plait::cuda
