// dk and dv of dot_product_attention_grad, of 16-bit floats on tensor cores. A block of threads has
// 64 keys of one key head, a warp 16 of them, and walks over the tiles of 64 queries that see any
// of them, of one query head after the other: every sum has one order.
//
// Scores are computed transposed (keys x queries), so that the weights are at once the left factor
// of the products that follow and need not pass through shared memory.
#include "plugins/devices/cuda/kernels/device.cuh"

#include "plugins/devices/cuda/kernels/attention_tile.cuh"

namespace plait::cuda {
namespace {

constexpr int kKeyRows = kGradKeyRows, kQueryColumns = kGradQueryColumns;

using Tiles = QueryTiles<kKeyRows, kQueryColumns>;

// A tile in shared memory: q and do, then of each query lse and delta.
template <int D>
struct QueryTile {
  static constexpr unsigned kBytes = 2 * kQueryColumns * 2 * D, kNumbers = 2 * kQueryColumns * 4;
  SharedAddress q, d_o, lse;
  const float* numbers;  // lse, then delta
  __device__ QueryTile(unsigned char* shared, unsigned stage) {
    constexpr unsigned kKeyBytes = 2 * kKeyRows * 2 * D;
    q = shared_address(shared) + kKeyBytes + stage * kBytes;
    d_o = q + kBytes / 2;
    const unsigned at = kKeyBytes + 2 * kBytes + stage * kNumbers;
    lse = shared_address(shared) + at;
    numbers = reinterpret_cast<const float*>(shared + at);
  }
};

template <class T, int D>
__device__ __forceinline__ void copy_queries(const AttentionArgs& a, int sample, const Tiles& at,
                                             const QueryTile<D>& to) {
  const int64_t row = (static_cast<int64_t>(sample) * a.queries + at.query) * a.heads + at.head;
  const int rows = a.queries - at.query;
  copy_tile<T, D, kQueryColumns>(to.q, static_cast<const T*>(a.q) + row * a.qk, a.heads * a.qk,
                                 rows, a.qk);
  copy_tile<T, D, kQueryColumns>(to.d_o, static_cast<const T*>(a.d_o) + row * a.value,
                                 a.heads * a.value, rows, a.value);
  // Behind the last query lse, delta, q and do are 0, which adds nothing.
  const int64_t number = (static_cast<int64_t>(sample) * a.heads + at.head) * a.queries + at.query;
  const int i = static_cast<int>(threadIdx.x) % kQueryColumns;
  const float* from =
      (static_cast<int>(threadIdx.x) < kQueryColumns ? a.lse : a.delta) + number + i;
  copy_async4(to.lse + 4 * threadIdx.x, from, i < rows);
}

using Transposed = float[1][kQueryColumns / 8][4];  // fragments c of (16 keys) x (queries)

// What a tile of scores becomes: weights; and a bit for each that dropout keeps.
__device__ __forceinline__ uint32_t weigh(const AttentionArgs& a, Transposed& s, int sample,
                                          const Tiles& at, int key, const float* lse) {
  const int column = 2 * (static_cast<int>(threadIdx.x) % 4);
  const float factor = exp2_factor(a);
  if (a.softcap > 0) {
    const float to_cap = a.scale / a.softcap;
#pragma unroll
    for (int i = 0; i < 32; ++i) s[0][i / 4][i % 4] = capped(s[0][i / 4][i % 4], to_cap);
  }
#pragma unroll
  for (int n = 0; n < kQueryColumns / 8; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float end = lse[8 * n + column + i] * kLog2E;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float& x = s[0][n][2 * half + i];
        x = fast_exp2(fmaf(x, factor, -end));
      }
      if (at.masked) {
        const AttentionKeys seen = keys_of_query(a, sample, at.query + 8 * n + column + i);
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (!sees(seen, key + 8 * half)) s[0][n][2 * half + i] = 0;
      }
    }
  uint32_t kept = 0xffffffffu;
  if (a.dropout > 0) {
    kept = 0;
#pragma unroll 1
    for (int i = 0; i < 32; ++i)
      kept |= static_cast<uint32_t>(keeps(a, sample, at.head, at.query + i / 4 * 8 + column + i % 2,
                                          key + i / 2 % 2 * 8))
              << i;
  }
  return kept;
}

template <class T, int D>
__device__ __forceinline__ void add_queries(const AttentionArgs& a, int sample, const Tiles& at,
                                            const QueryTile<D>& tile, SharedAddress k_rows,
                                            SharedAddress v_rows, int key, float (&dk)[1][D / 8][4],
                                            float (&dv)[1][D / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, column = 2 * (lane % 4);
  Transposed s = {};
  multiply_rows<T, D, 1, kQueryColumns / 8>(s, k_rows, by_columns<D>(tile.q, lane));
  const uint32_t kept = weigh(a, s, sample, at, key, tile.numbers);
  uint32_t left[1][kQueryColumns / 16][4];
  if (a.dropout > 0) {
    Transposed used;
#pragma unroll
    for (int i = 0; i < 32; ++i)
      used[0][i / 4][i % 4] = s[0][i / 4][i % 4] * (kept >> i & 1 ? a.kept : 0.0f);
    as_left<T>(used, left);
  } else {
    as_left<T>(s, left);
  }
  multiply_columns<T, D, 1, kQueryColumns / 16>(dv, left, by_rows<D>(tile.d_o, lane));
  Transposed dp = {};
  multiply_rows<T, D, 1, kQueryColumns / 8>(dp, v_rows, by_columns<D>(tile.d_o, lane));
  const float* const lse = tile.numbers;
  const float* const delta = tile.numbers + kQueryColumns;
  if (a.dropout > 0) {
#pragma unroll
    for (int i = 0; i < 32; ++i) dp[0][i / 4][i % 4] *= kept >> i & 1 ? a.kept : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < 32; ++i)
    dp[0][i / 4][i % 4] =
        s[0][i / 4][i % 4] * (dp[0][i / 4][i % 4] - delta[i / 4 * 8 + column + i % 2]);
  if (a.softcap > 0) {
#pragma unroll
    for (int i = 0; i < 32; ++i)
      dp[0][i / 4][i % 4] *= cap_slope(s[0][i / 4][i % 4], lse[i / 4 * 8 + column + i % 2] * kLog2E,
                                       1 / exp2_factor(a));
  }
  as_left<T>(dp, left);
  multiply_columns<T, D, 1, kQueryColumns / 16>(dk, left, by_rows<D>(tile.q, lane));
}

// Blocks: key heads of samples, each from its first block of keys, the longest under a causal mask.
template <class T, int D>
__device__ __forceinline__ void grade_keys(const AttentionArgs& a) {
  PLAIT_DYNAMIC_SHARED(unsigned char, shared);
  const SharedAddress k_tile = shared_address(shared), v_tile = k_tile + kKeyRows * 2 * D;
  const int blocks = (a.keys + kKeyRows - 1) / kKeyRows,
            row = static_cast<int>(blockIdx.x) / blocks,
            first = static_cast<int>(blockIdx.x) % blocks * kKeyRows, sample = row / a.groups,
            group = row % a.groups;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32,
            key = first + warp * 16 + lane / 4;
  const int64_t key_row = (static_cast<int64_t>(sample) * a.keys + first) * a.groups + group;
  copy_tile<T, D, kKeyRows>(k_tile, static_cast<const T*>(a.k) + key_row * a.qk, a.groups * a.qk,
                            a.keys - first, a.qk);
  copy_tile<T, D, kKeyRows>(v_tile, static_cast<const T*>(a.v) + key_row * a.value,
                            a.groups * a.value, a.keys - first, a.value);
  const SharedAddress k_rows = by_rows<D>(k_tile + static_cast<unsigned>(warp * 32 * D), lane),
                      v_rows = by_rows<D>(v_tile + static_cast<unsigned>(warp * 32 * D), lane);
  float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {};
  Tiles tiles(a, sample, group, first);
  if (!tiles.done()) copy_queries<T, D>(a, sample, tiles, QueryTile<D>(shared, 0));
  copy_commit();
  for (unsigned stage = 0; !tiles.done(); stage ^= 1) {
    const Tiles now = tiles;
    tiles.next(a);
    copy_wait<0>();
    __syncthreads();  // this tile is there, and nobody reads the one before any more
    if (!tiles.done()) copy_queries<T, D>(a, sample, tiles, QueryTile<D>(shared, stage ^ 1));
    copy_commit();
    add_queries<T, D>(a, sample, now, QueryTile<D>(shared, stage), k_rows, v_rows, key, dk, dv);
  }
  copy_wait<0>();
  __syncthreads();  // without queries k and v are still being copied
  const float scales[1][2] = {{a.scale, a.scale}}, ones[1][2] = {{1, 1}};
  const int rows = a.keys - first - warp * 16;
  write_rows<T, D, 1>(
      dk, scales, shared + warp * 32 * D,
      static_cast<T*>(a.dk) + (key_row + static_cast<int64_t>(warp * 16) * a.groups) * a.qk,
      static_cast<int64_t>(a.groups) * a.qk, rows, a.qk);
  write_rows<T, D, 1>(
      dv, ones, shared + kKeyRows * 2 * D + warp * 32 * D,
      static_cast<T*>(a.dv) + (key_row + static_cast<int64_t>(warp * 16) * a.groups) * a.value,
      static_cast<int64_t>(a.groups) * a.value, rows, a.value);
}

}  // namespace

#define PLAIT_ATTENTION(name, T, D) \
  PLAIT_GLOBAL(name, AttentionArgs, kAttentionThreads) { grade_keys<T, D>(a); }
PLAIT_ATTENTION(attention_grad_keys_bf16_64, bf16, 64)
PLAIT_ATTENTION(attention_grad_keys_bf16_128, bf16, 128)
PLAIT_ATTENTION(attention_grad_keys_f16_64, f16, 64)
PLAIT_ATTENTION(attention_grad_keys_f16_128, f16, 128)
#undef PLAIT_ATTENTION

}  // namespace plait::cuda
