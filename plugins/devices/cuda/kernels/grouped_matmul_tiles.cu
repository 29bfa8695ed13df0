// Products of groups in f32, without tensor cores: a block of threads has a tile of y, a thread
// 4 x 4 of its elements, whose sums have the order of the summands.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/grouped_matmul.cuh"

namespace plait::cuda {
namespace {

constexpr int kTile = kGroupedTile, kBlock = kGroupedTileBlock;
constexpr int kDepth = 16, kEach = 4;              // summands at once; rows of a thread
constexpr int kFetched = kTile * kDepth / kBlock;  // elements that a thread copies
static_assert(kBlock == kTile / kEach * (kTile / kEach) && kFetched == 4);

// One operand of a tile: `rows` rows that are here, of `depth` summands. kAlong: summands of a row
// lie side by side, and rows are `distance` apart; otherwise the other way round.
template <class T, bool kAlong>
struct Operand {
  const T* data;
  int64_t distance, depth;
  int rows;

  static __device__ __forceinline__ int row(int i) {
    const int t = static_cast<int>(threadIdx.x);
    return kAlong ? t / kDepth + i * (kBlock / kDepth) : t % kTile;
  }
  static __device__ __forceinline__ int summand(int i) {
    const int t = static_cast<int>(threadIdx.x);
    return kAlong ? t % kDepth : t / kTile + i * (kBlock / kTile);
  }
  __device__ __forceinline__ void fetch(int64_t first, float (&to)[kFetched]) const {
#pragma unroll
    for (int i = 0; i < kFetched; ++i) {
      const int64_t k = first + summand(i);
      const int r = row(i);
      const bool here = r < rows && k < depth;
      to[i] = here ? static_cast<float>(load(data + (kAlong ? r * distance + k : k * distance + r)))
                   : 0;
    }
  }
};
struct Shared {
  alignas(16) float x[kDepth][kTile + 4];
};
template <class Operand>
__device__ __forceinline__ void put(const float (&from)[kFetched], Shared& to) {
#pragma unroll
  for (int i = 0; i < kFetched; ++i) to.x[Operand::summand(i)][Operand::row(i)] = from[i];
}

using Sums = float[kEach][kEach];

template <class A, class B>
__device__ __forceinline__ void multiply(const A& a, const B& b, Sums& c) {
  __shared__ Shared left, right;
  const int row = static_cast<int>(threadIdx.x) / (kTile / kEach) * kEach,
            column = static_cast<int>(threadIdx.x) % (kTile / kEach) * kEach;
  float next_a[kFetched], next_b[kFetched];
  a.fetch(0, next_a), b.fetch(0, next_b);
  for (int64_t first = 0; first < a.depth; first += kDepth) {
    __syncthreads();
    put<A>(next_a, left), put<B>(next_b, right);
    __syncthreads();
    a.fetch(first + kDepth, next_a), b.fetch(first + kDepth, next_b);
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float x[kEach], w[kEach];
      load_pack<float, kEach>(&left.x[k][row], x);
      load_pack<float, kEach>(&right.x[k][column], w);
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j) c[i][j] = fmaf(x[i], w[j], c[i][j]);
    }
  }
}

// first: the element of y that is the tile's first one.
__device__ __forceinline__ void write(const GroupedMatmulArgs& a, const GroupedTile& t,
                                      int64_t first, const Sums& c) {
  const int row = static_cast<int>(threadIdx.x) / (kTile / kEach) * kEach,
            column = static_cast<int>(threadIdx.x) % (kTile / kEach) * kEach;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (row + i < t.rows && column + j < t.columns)
        set(a.y, first + (row + i) * a.outputs + column + j, c[i][j]);
}

template <class T, bool kTransposed>
__device__ void product_tile(const GroupedMatmulArgs& a) {
  const GroupedTile t = tile_of_product<kTile>(a);
  if (t.rows == 0) return;
  Sums c = {};
  if (has_matrix(a, t.group)) {
    const T* const b = static_cast<const T*>(a.b) + t.group * a.inputs * a.outputs;
    const Operand<T, true> left{static_cast<const T*>(a.a) + t.row * a.inputs, a.inputs, a.inputs,
                                t.rows};
    const Operand<T, kTransposed> right{b + (kTransposed ? t.column * a.inputs : t.column),
                                        kTransposed ? a.inputs : a.outputs, a.inputs, t.columns};
    multiply(left, right, c);
  }
  write(a, t, t.row * a.outputs + t.column, c);
}

template <class T>
__device__ void grad_tile(const GroupedMatmulArgs& a) {
  const GroupedTile t = tile_of_grad<kTile>(a);
  const int64_t begin = a.bounds[t.group + 1], depth = a.bounds[t.group + 2] - begin;
  Sums c = {};
  const Operand<T, false> left{static_cast<const T*>(a.a) + begin * a.inputs + t.row, a.inputs,
                               depth, t.rows};
  const Operand<T, false> right{static_cast<const T*>(a.b) + begin * a.outputs + t.column,
                                a.outputs, depth, t.columns};
  multiply(left, right, c);
  write(a, t, (t.group * a.inputs + t.row) * a.outputs + t.column, c);
}

}  // namespace

#define GROUPED_KERNELS(T, name)                                                               \
  PLAIT_GLOBAL(grouped_tiles_##name, GroupedMatmulArgs, kBlock) { product_tile<T, false>(a); } \
  PLAIT_GLOBAL(grouped_tiles_transposed_##name, GroupedMatmulArgs, kBlock) {                   \
    product_tile<T, true>(a);                                                                  \
  }                                                                                            \
  PLAIT_GLOBAL(grouped_grad_tiles_##name, GroupedMatmulArgs, kBlock) { grad_tile<T>(a); }

GROUPED_KERNELS(float, f32)
GROUPED_KERNELS(bf16, bf16)
GROUPED_KERNELS(f16, f16)
#undef GROUPED_KERNELS

}  // namespace plait::cuda
