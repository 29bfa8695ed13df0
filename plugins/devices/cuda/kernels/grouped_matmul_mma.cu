// Products of groups of 16-bit floats on tensor cores: a block of threads has a tile of y, each of
// its eight warps 64 x 32 of its elements, with sums in f32.
#include "plugins/devices/cuda/kernels/device.cuh"

#include "plugins/devices/cuda/kernels/attention_tile.cuh"
#include "plugins/devices/cuda/kernels/grouped_matmul.cuh"

namespace plait::cuda {
namespace {

constexpr int kTile = kGroupedMmaTile, kDepth = kGroupedDepth, kBlock = kGroupedMmaBlock;
constexpr int kM = 4, kN = 4;  // 16 rows and 8 columns of a warp each
static_assert(kTile == 2 * 16 * kM && kTile == 4 * 8 * kN && kBlock == 2 * 4 * 32);

// One operand of a tile: `rows` rows that are here, of `depth` summands. kAlong: summands of a row
// lie side by side, and rows are `distance` apart; otherwise the other way round.
template <class T, bool kAlong>
struct Operand {
  const T* data;
  int distance, rows, depth;

  // Begins to copy the summands from `first` on.
  __device__ __forceinline__ void copy(SharedAddress tile, int first) const {
    if constexpr (kAlong)
      copy_tile<T, kDepth, kTile, kBlock>(tile, data + first, distance, rows, depth - first);
    else
      copy_tile<T, kTile, kDepth, kBlock>(tile, data + static_cast<int64_t>(first) * distance,
                                          distance, depth - first, rows);
  }
};

// Fragment a of rows `row` to row + 15 and of the summands 16 k to 16 k + 15.
template <bool kAlong>
__device__ __forceinline__ void load_left(SharedAddress tile, int lane, unsigned row, unsigned k,
                                          uint32_t (&a)[4]) {
  if constexpr (kAlong) {
    load_matrices(a, by_rows<kDepth>(tile + row * (2 * kDepth), lane) ^ (k << 5));
  } else {
    uint32_t m[4];
    load_matrices_transposed(m, (by_rows<kTile>(tile, lane) ^ (row / 16 << 5)) + k * (32 * kTile));
    a[0] = m[0], a[1] = m[2], a[2] = m[1], a[3] = m[3];
  }
}
// Two fragments b, of columns `column` to column + 15.
template <bool kAlong>
__device__ __forceinline__ void load_right(SharedAddress tile, int lane, unsigned column,
                                           unsigned k, uint32_t (&b)[4]) {
  if constexpr (kAlong)
    load_matrices(b, by_columns<kDepth>(tile + column * (2 * kDepth), lane) ^ (k << 5));
  else
    load_matrices_transposed(b,
                             (by_rows<kTile>(tile, lane) ^ (column / 16 << 5)) + k * (32 * kTile));
}

using Sums = float[kM][kN][4];
__device__ __forceinline__ unsigned row_of_warp() { return threadIdx.x / 128 * (16 * kM); }
__device__ __forceinline__ unsigned column_of_warp() { return threadIdx.x / 32 % 4 * (8 * kN); }

template <class T, bool kLeftAlong, bool kRightAlong>
__device__ __forceinline__ void multiply(const Operand<T, kLeftAlong>& a,
                                         const Operand<T, kRightAlong>& b, Sums& c) {
  PLAIT_DYNAMIC_SHARED(unsigned char, shared);
  const SharedAddress stages = shared_address(shared);
  const int lane = static_cast<int>(threadIdx.x) % 32, steps = (a.depth + kDepth - 1) / kDepth;
  const auto stage = [&](int step) {
    return stages + static_cast<unsigned>(step % kGroupedStages) * kGroupedStageBytes;
  };
  const auto copy = [&](int step) {
    if (step < steps) {
      a.copy(stage(step), step * kDepth);
      b.copy(stage(step) + kGroupedStageBytes / 2, step * kDepth);
    }
    copy_commit();
  };
  for (int step = 0; step < kGroupedStages - 1; ++step) copy(step);
  for (int step = 0; step < steps; ++step) {
    copy_wait<kGroupedStages - 2>();
    __syncthreads();  // this step is there, and nobody reads the one before it any more
    copy(step + kGroupedStages - 1);
    const SharedAddress left_tile = stage(step), right_tile = left_tile + kGroupedStageBytes / 2;
#pragma unroll
    for (unsigned k = 0; k < kDepth / 16; ++k) {
      uint32_t left[kM][4];
#pragma unroll
      for (unsigned m = 0; m < kM; ++m)
        load_left<kLeftAlong>(left_tile, lane, row_of_warp() + 16 * m, k, left[m]);
#pragma unroll
      for (unsigned n = 0; n < kN / 2; ++n) {
        uint32_t right[4];
        load_right<kRightAlong>(right_tile, lane, column_of_warp() + 16 * n, k, right);
#pragma unroll
        for (unsigned m = 0; m < kM; ++m) {
          multiply_add<T>(c[m][2 * n], left[m], right[0], right[1]);
          multiply_add<T>(c[m][2 * n + 1], left[m], right[2], right[3]);
        }
      }
    }
  }
  copy_wait<0>();
}

// Two neighbouring elements of y, which is f32 or of type T.
template <class T>
__device__ __forceinline__ void put_two(const AnyPointer& y, int64_t i, float first, float second) {
  if (y.dtype == PLAIT_F32)
    *reinterpret_cast<float2*>(static_cast<float*>(y.data) + i) = make_float2(first, second);
  else
    *reinterpret_cast<uint32_t*>(static_cast<T*>(y.data) + i) = pack_two<T>(first, second);
}

// first: the element of y that is the tile's first one.
template <class T>
__device__ __forceinline__ void write(const GroupedMatmulArgs& a, const GroupedTile& t,
                                      int64_t first, const Sums& c) {
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (unsigned m = 0; m < kM; ++m)
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const auto row = static_cast<int>(row_of_warp() + 16 * m + 8 * half + lane / 4);
      if (row >= t.rows) continue;
#pragma unroll
      for (unsigned n = 0; n < kN; ++n) {
        const auto column = static_cast<int>(column_of_warp() + 8 * n + 2 * (lane % 4));
        if (column < t.columns)
          put_two<T>(a.y, first + row * a.outputs + column, c[m][n][2 * half],
                     c[m][n][2 * half + 1]);
      }
    }
}

template <class T, bool kTransposed>
__device__ void product_tile(const GroupedMatmulArgs& a) {
  const GroupedTile t = tile_of_product<kTile>(a);
  if (t.rows == 0) return;
  const auto inputs = static_cast<int>(a.inputs), outputs = static_cast<int>(a.outputs);
  Sums c = {};
  if (has_matrix(a, t.group)) {
    const T* const b = static_cast<const T*>(a.b) + t.group * a.inputs * a.outputs;
    const Operand<T, true> left{static_cast<const T*>(a.a) + t.row * a.inputs, inputs, t.rows,
                                inputs};
    const Operand<T, kTransposed> right{b + (kTransposed ? t.column * a.inputs : t.column),
                                        kTransposed ? inputs : outputs, t.columns, inputs};
    multiply<T>(left, right, c);
  }
  write<T>(a, t, t.row * a.outputs + t.column, c);
}

template <class T>
__device__ void grad_tile(const GroupedMatmulArgs& a) {
  const GroupedTile t = tile_of_grad<kTile>(a);
  const int64_t begin = a.bounds[t.group + 1];
  const auto depth = static_cast<int>(a.bounds[t.group + 2] - begin);
  Sums c = {};
  const Operand<T, false> left{static_cast<const T*>(a.a) + begin * a.inputs + t.row,
                               static_cast<int>(a.inputs), t.rows, depth};
  const Operand<T, false> right{static_cast<const T*>(a.b) + begin * a.outputs + t.column,
                                static_cast<int>(a.outputs), t.columns, depth};
  multiply<T>(left, right, c);
  write<T>(a, t, (t.group * a.inputs + t.row) * a.outputs + t.column, c);
}

}  // namespace

#define GROUPED_KERNELS(T)                                                                \
  PLAIT_GLOBAL(grouped_mma_##T, GroupedMatmulArgs, kBlock) { product_tile<T, false>(a); } \
  PLAIT_GLOBAL(grouped_mma_transposed_##T, GroupedMatmulArgs, kBlock) {                   \
    product_tile<T, true>(a);                                                             \
  }                                                                                       \
  PLAIT_GLOBAL(grouped_grad_mma_##T, GroupedMatmulArgs, kBlock) { grad_tile<T>(a); }

GROUPED_KERNELS(bf16)
GROUPED_KERNELS(f16)
#undef GROUPED_KERNELS

}  // namespace plait::cuda
